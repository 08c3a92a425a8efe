-- The rows of `days_raw`, each with the reason why it is left out; NULL if it is used.
-- The bounds are wide: they refuse what no device can do, not what is rare.
--   $today        the present day, in days since 1970-01-01
--   $first_valid  the first day that a clock can show if it is set
SELECT
    *,
    CASE
        WHEN device IS NULL OR device = '' OR disk IS NULL THEN 'no-name'
        WHEN day_number IS NULL OR day_number < $first_valid OR day_number > $today + 1 THEN 'wrong-clock'
        WHEN watched_s < 0 OR reads < 0 OR writes < 0 OR flushes < 0 OR read_us < 0 OR write_us < 0 OR flush_us < 0
            OR read_bytes < 0 OR written_bytes < 0 OR busy_ms < 0 OR stalls < 0 OR stalled_ms < 0
            OR slow_reads < 0 OR slow_writes < 0 OR slow_flushes < 0 THEN 'negative'
        WHEN watched_s > 90000 THEN 'longer-than-a-day'
        -- 32 GB/s is the rate of the fastest bus (PCIe 5.0 with 8 lanes).
        WHEN written_bytes > (watched_s + 60) * 32000000000 OR read_bytes > (watched_s + 60) * 32000000000
            THEN 'faster-than-a-bus'
        WHEN busy_ms > (watched_s + 60) * 1000 * 2 THEN 'busier-than-time'
        WHEN slow_reads > reads OR slow_writes > writes OR slow_flushes > flushes THEN 'more-slow-than-all'
        -- A mean response time of more than an hour.
        WHEN read_us > reads * 3600000000 OR write_us > writes * 3600000000 OR flush_us > flushes * 3600000000
            THEN 'slower-than-an-hour'
        WHEN life_used_percent < 0 OR life_used_percent > 255 THEN 'impossible-wear'
    END AS refused
FROM days_raw
