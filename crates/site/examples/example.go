package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"time"
)

// What is null stays an empty text.
type body struct {
	IP, IPv6, City, Error, Message string
}

func main() {
	request, err := http.NewRequest(http.MethodGet, "BASE_URL/api/v1/ip", nil)
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer YOUR_KEY")

	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()

	var answer body
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		log.Fatal(err)
	}
	switch response.StatusCode {
	case http.StatusOK:
		if answer.City == "" {
			answer.City = "somewhere"
		}
		fmt.Printf("%s%s, %s\n", answer.IP, answer.IPv6, answer.City)
		fmt.Println(response.Header.Get("X-RateLimit-Remaining"), "requests left today")
	case http.StatusTooManyRequests:
		log.Fatalf("429 %s: %s\nRetry-After: %s s", answer.Error, answer.Message, response.Header.Get("Retry-After"))
	default:
		log.Fatalf("%d %s: %s", response.StatusCode, answer.Error, answer.Message)
	}
}
