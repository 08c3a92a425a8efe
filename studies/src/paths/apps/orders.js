// Books the orders of a file: one transaction per order.
const fs = require("fs");
const path = require("path");
const Database = require("better-sqlite3");

const db = new Database(path.join(__dirname, "shop.db"));
db.exec(`
  CREATE TABLE IF NOT EXISTS orders(
    id INTEGER PRIMARY KEY, customer TEXT NOT NULL, item TEXT NOT NULL, pieces INTEGER NOT NULL, booked TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS stock(item TEXT PRIMARY KEY, pieces INTEGER NOT NULL);
`);

const insert = db.prepare("INSERT INTO orders(customer, item, pieces, booked) VALUES (?, ?, ?, ?)");
const take = db.prepare(
  "INSERT INTO stock(item, pieces) VALUES (?, 1000 - ?) ON CONFLICT(item) DO UPDATE SET pieces = pieces - ?",
);

const book = db.transaction((customer, item, pieces) => {
  insert.run(customer, item, pieces, new Date().toISOString());
  take.run(item, pieces, pieces);
});

for (const line of fs.readFileSync(path.join(__dirname, "orders.csv"), "utf8").split("\n")) {
  if (line.trim() === "") continue;
  const [customer, item, pieces] = line.split(",");
  book(customer, item, Number(pieces));
}

const { count } = db.prepare("SELECT count(*) AS count FROM orders").get();
console.log(`${count} orders booked; stock:`);
for (const { item, pieces } of db.prepare("SELECT item, pieces FROM stock ORDER BY item").all()) {
  console.log(`  ${item}: ${pieces}`);
}
db.close();
