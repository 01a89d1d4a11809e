import json
import sys
import urllib.error
import urllib.request

request = urllib.request.Request(
    "BASE_URL/api/v1/ip",
    headers={"Authorization": "Bearer YOUR_KEY"},
)
try:
    with urllib.request.urlopen(request, timeout=10) as response:
        answer = json.load(response)
        left = response.headers["X-RateLimit-Remaining"]
except urllib.error.HTTPError as error:
    problem = json.load(error)
    print(f"{error.code} {problem['error']}: {problem['message']}", file=sys.stderr)
    if error.code == 429:
        print(f"Retry-After: {error.headers['Retry-After']} s", file=sys.stderr)
    sys.exit(1)

print(f"{answer['ip'] or answer['ipv6']}, {answer.get('city') or 'somewhere'}")
print(f"{left} requests left today")
