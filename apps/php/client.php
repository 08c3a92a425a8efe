<?php
// Uses the small cloud over HTTP, as a browser does. Usage: client.php login | upload COUNT | settings COUNT | delete COUNT | page
const SERVER = 'http://127.0.0.1:8080';
// The session of this client.
const COOKIE = '/tmp/cookie';

function request(string $method, string $path, string $body = '', string $type = 'application/x-www-form-urlencoded'): string
{
    $cookie = is_file(COOKIE) ? file_get_contents(COOKIE) : '';
    $headers = ["Content-Type: $type", "Cookie: $cookie"];
    $options = ['method' => $method, 'header' => $headers, 'content' => $body, 'timeout' => 60];
    $answer = file_get_contents(SERVER . $path, false, stream_context_create(['http' => $options]));
    if ($answer === false) {
        echo "no answer to $method $path\n";
        exit(1);
    }
    foreach ($http_response_header as $header) {
        if (stripos($header, 'Set-Cookie: ') === 0) {
            file_put_contents(COOKIE, strtok(substr($header, 12), ';'));
        }
    }
    return $answer;
}

$count = (int) ($argv[2] ?? 1);
switch ($argv[1]) {
    case 'login':
        request('POST', '/login', 'user=anna');
        break;
    case 'upload':
        for ($i = 1; $i <= $count; $i++) {
            request('PUT', "/files/photo-$i", random_bytes(200000), 'image/jpeg');
            $page = request('GET', '/');
            if (!str_contains($page, "photo-$i ")) {
                echo "the page does not list photo-$i\n";
                exit(1);
            }
        }
        break;
    case 'settings':
        for ($i = 1; $i <= $count; $i++) {
            request('POST', '/settings', "key=setting-$i&value=" . str_repeat('v', 100));
        }
        break;
    case 'delete':
        for ($i = 1; $i <= $count; $i++) {
            request('DELETE', "/files/photo-$i");
        }
        break;
    case 'page':
        $page = request('GET', '/');
        if (!str_contains($page, '<li>')) {
            echo "the page lists no files\n";
            exit(1);
        }
        break;
}
