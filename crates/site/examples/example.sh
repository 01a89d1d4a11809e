curl -i "BASE_URL/api/v1/ip" \
  -H "Authorization: Bearer YOUR_KEY"
