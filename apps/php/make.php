<?php
// Makes the folders and the database of the small cloud, with as many files in its index as the first argument says.
$data = getenv('CLOUD_DATA');
foreach (['sessions', 'files'] as $folder) {
    mkdir("$data/$folder");
}
$database = new PDO("sqlite:$data/cloud.db");
$database->setAttribute(PDO::ATTR_ERRMODE, PDO::ERRMODE_EXCEPTION);
$database->exec('CREATE TABLE files(path TEXT PRIMARY KEY, size INTEGER, time INTEGER, tag TEXT)');
$database->exec('CREATE TABLE settings(user TEXT, key TEXT, value TEXT, PRIMARY KEY(user, key))');
$database->exec('CREATE TABLE activities(id INTEGER PRIMARY KEY, time INTEGER, user TEXT, what TEXT, file TEXT)');
$database->exec('CREATE INDEX activities_by_file ON activities(file, time)');
$database->exec("INSERT INTO files VALUES('/', 0, 0, '')");
$database->beginTransaction();
$file = $database->prepare('INSERT INTO files VALUES(?, 0, ?, ?)');
$activity = $database->prepare("INSERT INTO activities(time, user, what, file) VALUES(?, 'anna', 'upload', ?)");
for ($i = 1; $i <= (int) $argv[1]; $i++) {
    $file->execute(["old-$i", $i, md5((string) $i)]);
    $activity->execute([$i, "old-$i"]);
}
$database->commit();
