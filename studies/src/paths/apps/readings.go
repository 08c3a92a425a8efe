// Stores the readings of a sensor file in a database, one commit per reading.
package main

import (
	"bufio"
	"database/sql"
	"fmt"
	"log"
	"os"
	"strings"

	_ "modernc.org/sqlite"
)

func main() {
	db, err := sql.Open("sqlite", "readings.db")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	_, err = db.Exec(`CREATE TABLE IF NOT EXISTS readings(
		id INTEGER PRIMARY KEY, sensor TEXT NOT NULL, value REAL NOT NULL, taken TEXT NOT NULL)`)
	if err != nil {
		log.Fatal(err)
	}

	file, err := os.Open("readings.csv")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ",")
		if len(fields) != 3 {
			continue
		}
		_, err := db.Exec("INSERT INTO readings(taken, sensor, value) VALUES (?, ?, ?)", fields[0], fields[1], fields[2])
		if err != nil {
			log.Fatal(err)
		}
	}

	rows, err := db.Query("SELECT sensor, count(*), avg(value) FROM readings GROUP BY sensor ORDER BY sensor")
	if err != nil {
		log.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var sensor string
		var count int
		var mean float64
		if err := rows.Scan(&sensor, &count, &mean); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %d readings, mean %.1f\n", sensor, count, mean)
	}
}
