<?php
$context = stream_context_create(['http' => [
    'header' => 'Authorization: Bearer YOUR_KEY',
    'ignore_errors' => true, // The body of an error is worth reading.
    'timeout' => 10,
]]);
$stream = fopen('BASE_URL/api/v1/ip', 'r', false, $context);
if ($stream === false) {
    exit(1);
}
$headers = [];
foreach (stream_get_meta_data($stream)['wrapper_data'] as $line) {
    [$name, $value] = array_pad(explode(': ', $line, 2), 2, '');
    $headers[strtolower($name)] = $value;
}
$body = json_decode(stream_get_contents($stream), true, flags: JSON_THROW_ON_ERROR);

if (isset($body['error'])) {
    fwrite(STDERR, "{$body['error']}: {$body['message']}\n");
    if (isset($headers['retry-after'])) {
        fwrite(STDERR, "Retry-After: {$headers['retry-after']} s\n");
    }
    exit(1);
}
echo $body['ip'] ?? $body['ipv6'], ', ', $body['city'] ?? 'somewhere', "\n";
echo $headers['x-ratelimit-remaining'], " requests left today\n";
