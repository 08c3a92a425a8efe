<?php
// A small cloud: people log in, upload files, see a list of them, and change settings. As in larger ones, the sessions and the
// uploads are files, and the index of the files, the settings and the activities are in a database of SQLite.

$data = getenv('CLOUD_DATA');
ini_set('session.save_path', "$data/sessions");
session_start();
$database = new PDO("sqlite:$data/cloud.db");
$database->setAttribute(PDO::ATTR_ERRMODE, PDO::ERRMODE_EXCEPTION);
$database->exec('PRAGMA busy_timeout = 10000');

function change(string $statement, array $values): void
{
    global $database;
    $database->prepare($statement)->execute($values);
}

function act(string $what, string $file = ''): void
{
    change('INSERT INTO activities(time, user, what, file) VALUES(?, ?, ?, ?)', [time(), $_SESSION['user'], $what, $file]);
}

function set(string $key, string $value): void
{
    change('INSERT OR REPLACE INTO settings(user, key, value) VALUES(?, ?, ?)', [$_SESSION['user'], $key, $value]);
}

$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$file = basename($path);
$answer = fn (int $code, string $text) => http_response_code($code) && print($text);

if ($path === '/login') {
    session_regenerate_id(true);
    $_SESSION['user'] = $_POST['user'];
    set('last login', (string) time());
    act('login');
    $answer(200, 'welcome');
} elseif (!isset($_SESSION['user'])) {
    $answer(403, 'log in');
} elseif (str_starts_with($path, '/files/') && $_SERVER['REQUEST_METHOD'] === 'PUT') {
    $size = file_put_contents("$data/files/$file.part", fopen('php://input', 'r'));
    rename("$data/files/$file.part", "$data/files/$file");
    $tag = bin2hex(random_bytes(16));
    change('INSERT OR REPLACE INTO files(path, size, time, tag) VALUES(?, ?, ?, ?)', [$file, $size, time(), $tag]);
    change('UPDATE files SET tag = ?, size = size + ? WHERE path = ?', [$tag, $size, '/']);
    act('upload', $file);
    $_SESSION['uploads'] = ($_SESSION['uploads'] ?? 0) + 1;
    $answer(201, $tag);
} elseif (str_starts_with($path, '/files/') && $_SERVER['REQUEST_METHOD'] === 'DELETE') {
    unlink("$data/files/$file");
    change('DELETE FROM files WHERE path = ?', [$file]);
    act('delete', $file);
    $answer(200, 'gone');
} elseif ($path === '/settings') {
    set($_POST['key'], $_POST['value']);
    $answer(200, 'saved');
} else {
    $html = '<!doctype html><title>files</title><ul>';
    $newest = 'SELECT files.path, size, max(activities.time) AS last FROM files LEFT JOIN activities ON file = files.path
               GROUP BY files.path ORDER BY last DESC, files.path LIMIT 100';
    foreach ($database->query($newest) as $row) {
        $html .= '<li>' . htmlspecialchars("{$row['path']} ({$row['size']} bytes)");
    }
    $answer(200, $html);
}
