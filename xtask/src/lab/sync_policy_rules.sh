cat >/etc/fonio/sync-policy.toml <<END
[[database]]
path = "/srv/app/notes.db"
class = "ordered"

[[database]]
path = "/srv/app/cache.db"
class = "cache"
END
