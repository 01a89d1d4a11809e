const response = await fetch("BASE_URL/api/v1/ip", {
  headers: { Authorization: "Bearer YOUR_KEY" },
  signal: AbortSignal.timeout(10_000),
});
const body = await response.json();

if (response.ok) {
  console.log(`${body.ip ?? body.ipv6}, ${body.city ?? "somewhere"}`);
  console.log(`${response.headers.get("X-RateLimit-Remaining")} requests left today`);
} else {
  console.error(`${response.status} ${body.error}: ${body.message}`);
  if (response.status === 429) {
    console.error(`Retry-After: ${response.headers.get("Retry-After")} s`);
  }
  process.exitCode = 1;
}
