//! Compose files, and what becomes of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use expect_test::{Expect, expect};

use super::*;
use crate::app::Step;

/// Loads a file beside which are a folder `conf`, a file `one.env` and a file `.env`.
fn load(text: &str, wanted: &[&str]) -> Result<Stack, String> {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().join("My Shop");
    fs::create_dir_all(folder.join("conf/inner")).expect("a folder");
    for (name, text) in [
        ("one.env", "A=1\nB=one\n"),
        ("bad.env", "A=1\nB C\n"),
        (".env", "TAG=7\n"),
        ("docker-compose.yml", text),
    ] {
        fs::write(folder.join(name), text).expect("a file");
    }
    let environment = [("HOME".to_owned(), "/root".to_owned()), ("PASSED".to_owned(), "p".to_owned())].into();
    let loaded = Stack::load(&folder.join("docker-compose.yml"), &environment, wanted);
    loaded.map_err(|error| error.to_string().replace(&format!("{}/", folder.display()), ""))
}

/// Returns the notes, the steps before the clock starts, the measured step, and the scripts of the services.
fn shown(text: &str, work: &Work) -> String {
    let wanted: Vec<&str> = match &work.drive {
        Drive::Until(service) | Drive::Exec { service, .. } => vec![service],
        _ => Vec::new(),
    };
    let stack = match load(text, &wanted) {
        Ok(stack) => stack,
        Err(error) => return error,
    };
    let images: Vec<PathBuf> =
        stack.images().iter().map(|image| format!("/images/{}", image.name).into()).collect();
    let (app, outside) = stack.app(work, &images);
    let mut out = format!("{}\n", stack.name());
    out += &stack.notes().iter().map(|note| format!("note: {note}\n")).collect::<String>();
    let step = |step: &Step| {
        format!("  {}: {:?}\n", step.told(), step.run.as_ref().map_or(vec![], |run| run[1..].to_vec()))
    };
    let script = &app.scripts[SCRIPT];
    out += &format!("before\n{}", script.before.iter().map(step).collect::<String>());
    out += &format!("measured\n{}", script.steps.iter().map(step).collect::<String>());
    for (name, text) in
        app.files.iter().filter(|(name, _)| !["setup.sh", "healthy.sh"].contains(&name.as_str()))
    {
        out += &format!("--- {name}\n{text}");
    }
    for (from, to) in &outside.copies {
        let from = from.strip_prefix(&stack.folder).unwrap_or(from);
        out += &format!("copies {} to {}\n", from.display(), to.display());
    }
    out
}

fn check(text: &str, drive: Drive, expected: &Expect) {
    expected.assert_eq(&shown(text, &Work { drive, units: None }));
}

#[test]
fn a_stack_starts_in_the_order_of_its_dependencies() {
    check(
        "services:
  web:
    image: shop:${TAG}
    depends_on:
      db: { condition: service_healthy }
      migrate: { condition: service_completed_successfully }
    environment: { URL: 'redis://db', PASSED: , MISSING: }
    ports: ['8080:80']
    restart: always
  migrate:
    image: shop:${TAG}
    command: migrate --all \"two words\"
    depends_on: [db]
  db:
    image: redis
    container_name: shop-db
    command: [redis-server, --save, '']
    volumes: ['data:/data', './conf:/etc/redis:ro', '/scratch']
    healthcheck: { test: [CMD, redis-cli, ping], interval: 1s, timeout: 2s, retries: 4 }
volumes: { data: }
",
        Drive::For(Duration::from_secs(30)),
        &expect![[r#"
            myshop
            note: not used: `ports` of web (each container listens on its own ports, at 127.0.0.1 of the stack's network)
            note: not used: `restart` of web (a service that ends with an error ends the run)
            before
              start db: []
              migrate: ["$FILES/migrate.run.sh"]
              waiting for db: ["$FILES/healthy.sh", "db", "12", "1", "2"]
              start web: []
              start: ["2"]
            measured
              running: ["30"]
            --- db.check.sh
            exec podman exec db redis-cli ping
            --- db.run.sh
            exec podman run \
                --name db \
                --network host \
                --no-healthcheck \
                --add-host db:127.0.0.1 \
                --add-host shop-db:127.0.0.1 \
                --add-host migrate:127.0.0.1 \
                --add-host web:127.0.0.1 \
                --volume data:/data \
                --volume /scratch \
                --volume "$DATA"/mounts/0:/etc/redis:ro \
                --pidfile "$RUN"/db.started \
                "$(cat "$RUN/image-0")" redis-server --save ''
            --- migrate.run.sh
            exec podman run \
                --name migrate \
                --network host \
                --add-host db:127.0.0.1 \
                --add-host shop-db:127.0.0.1 \
                --add-host migrate:127.0.0.1 \
                --add-host web:127.0.0.1 \
                --pidfile "$RUN"/migrate.started \
                "$(cat "$RUN/image-1")" migrate --all 'two words'
            --- pull.sh
            set -e
            podman pull -q oci:/images/redis >"$RUN/image-0"
            podman pull -q oci:/images/shop:7 >"$RUN/image-1"
            --- web.run.sh
            exec podman run \
                --name web \
                --network host \
                --add-host db:127.0.0.1 \
                --add-host shop-db:127.0.0.1 \
                --add-host migrate:127.0.0.1 \
                --add-host web:127.0.0.1 \
                --env PASSED=p \
                --env URL=redis://db \
                --pidfile "$RUN"/web.started \
                "$(cat "$RUN/image-1")"
            copies conf to mounts/0
        "#]],
    );
}

#[test]
fn a_service_can_end_the_run() {
    check(
        "services:
  client:
    image: redis
    entrypoint: ['redis-benchmark', '-h']
    command: db
    depends_on: { db: { condition: service_healthy }, none: { required: false } }
    links: ['db:store']
    network_mode: none
  db:
    image: redis
",
        Drive::Until("client".to_owned()),
        &expect![[r#"
            myshop
            before
              start db: []
              waiting for db: ["$FILES/healthy.sh", "db", "180", "1", "30"]
            measured
              client: ["$FILES/client.run.sh"]
            --- client.run.sh
            exec podman run \
                --name client \
                --network none \
                --add-host store:127.0.0.1 \
                --entrypoint '["redis-benchmark","-h"]' \
                --pidfile "$RUN"/client.started \
                "$(cat "$RUN/image-0")" db
            --- db.check.sh
            exec podman healthcheck run db
            --- db.run.sh
            exec podman run \
                --name db \
                --network host \
                --add-host db:127.0.0.1 \
                --add-host client:127.0.0.1 \
                --pidfile "$RUN"/db.started \
                "$(cat "$RUN/image-0")"
            --- pull.sh
            set -e
            podman pull -q oci:/images/redis >"$RUN/image-0"
        "#]],
    );
}

#[test]
fn a_command_drives_the_stack() {
    let text = "name: shop\nservices: { db: { image: redis, healthcheck: { test: 'redis-cli ping' } } }\n";
    let words = ["redis-benchmark", "-n", "$UNITS", "it's"].map(str::to_owned).to_vec();
    let exec = Drive::Exec { service: "db".to_owned(), words: words.clone() };
    let work = Work { drive: exec, units: Some(("SET".to_owned(), 500)) };
    expect![[r#"
        shop
        before
          start db: []
          waiting for db: ["$FILES/healthy.sh", "db", "180", "1", "30"]
        measured
          in db: ["$FILES/driver.sh", "$UNITS"]
        --- db.check.sh
        exec podman exec db /bin/sh -c 'redis-cli ping'
        --- db.run.sh
        exec podman run \
            --name db \
            --network host \
            --no-healthcheck \
            --add-host db:127.0.0.1 \
            --pidfile "$RUN"/db.started \
            "$(cat "$RUN/image-0")"
        --- driver.sh
        exec podman exec db redis-benchmark -n ''"$1"'' 'it'\''s'
        --- pull.sh
        set -e
        podman pull -q oci:/images/redis >"$RUN/image-0"
    "#]]
    .assert_eq(&shown(text, &work));
    let work = Work { drive: Drive::Command(words), units: Some(("SET".to_owned(), 500)) };
    let (app, _) = load(text, &[]).expect("it is right").app(&work, &[PathBuf::from("/i")]);
    let step = &app.scripts[SCRIPT].steps[0];
    assert!(step.outside && step.units == Some(500) && app.unit.as_deref() == Some("SET"), "{step:?}");
}

#[test]
fn options_become_those_of_podman() {
    check(
        "x-all: &all
  image: i
  cap_add: [NET_ADMIN]
services:
  one:
    <<: *all
    env_file: [one.env, { path: none.env, required: false }]
    environment: ['B=two', 'C=$$x']
    user: '1000:1000'
    working_dir: /w
    tmpfs: /tmp:size=1m
    read_only: true
    init: yes
    shm_size: 64m
    hostname: first
    ulimits: { nofile: { soft: 1, hard: 2 }, nproc: 5 }
    extra_hosts: ['a:1.2.3.4', 'b=host-gateway']
    networks: { back: { aliases: [uno] } }
    volumes:
      - { type: bind, source: ./conf/inner, target: /inner, read_only: true }
      - { type: bind, source: ./conf, target: /conf }
      - { type: volume, source: v, target: /v, volume: { nocopy: true } }
      - { type: tmpfs, target: /t, tmpfs: { size: 1000 } }
      - ./new:/new
    healthcheck: { disable: true }
  spare:
    image: i
    profiles: [debug]
volumes: { v: { external: true } }
networks: { back: }
",
        Drive::For(Duration::from_millis(1500)),
        &expect![[r#"
            myshop
            note: ./new does not exist, so an empty folder is mounted at /new
            note: spare is not started, because it has the profile debug
            note: not used: `external` of v (the volume begins empty)
            note: not used: `networks` (all services share one network)
            before
              start one: []
              start: ["2"]
            measured
              running: ["1.5"]
            --- one.run.sh
            exec podman run \
                --name one \
                --network host \
                --no-healthcheck \
                --add-host one:127.0.0.1 \
                --add-host first:127.0.0.1 \
                --add-host uno:127.0.0.1 \
                --user 1000:1000 \
                --workdir /w \
                --read-only \
                --read-only-tmpfs=false \
                --init \
                --shm-size 64m \
                --uts=private \
                --hostname first \
                --ulimit nofile=1:2 \
                --ulimit nproc=5 \
                --add-host a:1.2.3.4 \
                --add-host b:127.0.0.1 \
                --cap-add NET_ADMIN \
                --env A=1 \
                --env B=two \
                --env 'C=$x' \
                --tmpfs /tmp:size=1m \
                --volume v:/v:nocopy \
                --tmpfs /t:size=1000 \
                --volume "$DATA"/mounts/0/inner:/inner:ro \
                --volume "$DATA"/mounts/0:/conf \
                --volume "$DATA"/mounts/1:/new \
                --pidfile "$RUN"/one.started \
                "$(cat "$RUN/image-0")"
            --- pull.sh
            set -e
            podman pull -q oci:/images/i >"$RUN/image-0"
            copies conf to mounts/0
            copies new to mounts/1
        "#]],
    );
}

#[test]
fn what_cannot_be_used_is_refused_with_its_line() {
    let service = |lines: &str| format!("services:\n  a:\n    image: i\n{lines}volumes:\n  data:\n");
    let problems: String = [
        "",
        "services:\n",
        "services: {}\n",
        "a: 1\n",
        "services:\n  a:\n    command: x\n",
        "services:\n  a b:\n    image: i\n",
        "services:\n  a: i\n",
        "secrets: { s: { file: x } }\nservices: { a: { image: i } }\n",
        &service("    imge: x\n"),
        &service("    devices: [/dev/ttyUSB0]\n"),
        &service("    env_file: none.env\n"),
        &service("    env_file: bad.env\n"),
        &service("    depends_on: [b]\n"),
        &service("    depends_on: [a]\n"),
        &service("    depends_on: { a: { condition: ready } }\n"),
        &service("    volumes: ['dta:/x']\n"),
        &service("    volumes: ['data:x']\n"),
        &service("    volumes: ['a:b:c:d']\n"),
        &service("    volumes: ['data:/x:rx']\n"),
        &service("    volumes: ['/var/run/docker.sock:/s']\n"),
        &service("    volumes: ['/:/host']\n"),
        &service(
            "    volumes: [{ type: bind, source: ./n, target: /n, bind: { create_host_path: false } }]\n",
        ),
        &service("    healthcheck: { test: [redis-cli, ping] }\n"),
        &service("    healthcheck: { test: [CMD] }\n"),
        &service("    healthcheck: { test: x, interval: 5 }\n"),
        &service("    healthcheck: { test: x, retries: 0 }\n"),
        &service("    command: it's\n"),
        &service("    command: ${X:?set it}\n"),
        &service("    read_only: maybe\n"),
        &service("    scale: 2\n"),
        &service("    deploy: { replicas: 3 }\n"),
        &service("    platform: linux/arm64\n"),
        &service("    network_mode: container:x\n"),
        &service("    build: .\n    extends: { service: b }\n"),
    ]
    .iter()
    .map(|text| {
        load(text, &[]).map_or_else(|error| error, |stack| format!("no problem: {text:?} {stack:?}")) + "\n"
    })
    .collect();
    expect![[r#"
        docker-compose.yml, line 1: the file is empty
        docker-compose.yml, line 1: services consists of keys and values, such as `key: value`
        docker-compose.yml, line 1: `services` is empty
        docker-compose.yml, line 1: the key `a` is not known
        docker-compose.yml, line 2: the service a has no `image`
        docker-compose.yml, line 2: `a b` is not a name of a service: use letters, digits, -, _ and .
        docker-compose.yml, line 2: a service consists of keys and values, such as `key: value`
        docker-compose.yml, line 1: `secrets` is not supported: put the file into `volumes` of the service
        docker-compose.yml, line 4: the key `imge` is not known; the nearest name is `image`
        docker-compose.yml, line 4: `devices` is not supported: the stack gets no devices of this machine
        docker-compose.yml, line 4: cannot read the env_file none.env: No such file or directory (os error 2)
        docker-compose.yml, line 4: bad.env, line 2: `B C` is not NAME=VALUE
        docker-compose.yml, line 4: the file has no service `b`
        docker-compose.yml, line 2: these services wait for each other: a
        docker-compose.yml, line 4: the condition `ready` is not known: use service_started, service_healthy or service_completed_successfully
        docker-compose.yml, line 4: `volumes` at the top of the file has no `dta`; the nearest name is `data`
        docker-compose.yml, line 4: `x` is not a path in the container: begin it with /
        docker-compose.yml, line 4: `a:b:c:d` is not SOURCE:TARGET or SOURCE:TARGET:MODE
        docker-compose.yml, line 4: the mode `rx` of a volume is not known: use ro or rw
        docker-compose.yml, line 4: /var/run/docker.sock is of this machine and is not copied to the device: leave this volume out
        docker-compose.yml, line 4: / is of this machine and is not copied to the device: leave this volume out
        docker-compose.yml, line 4: cannot read ./n: No such file or directory (os error 2)
        docker-compose.yml, line 4: a list in `test` begins with CMD, CMD-SHELL or NONE
        docker-compose.yml, line 4: name a command after CMD
        docker-compose.yml, line 4: `5` is not a time: write it as 30s, 500ms or 1m30s
        docker-compose.yml, line 4: `retries` is a number from 1 to 1000
        docker-compose.yml, line 4: `it's` has a quote that does not end
        docker-compose.yml, line 4: the variable X must be set, in the environment or in the file .env: set it
        docker-compose.yml, line 4: `maybe` is neither true nor false
        docker-compose.yml, line 4: each service has one container, because all share one network: write 1
        docker-compose.yml, line 4: each service has one container, because all share one network: write 1
        docker-compose.yml, line 4: containers for linux/arm64 do not run here, only those for linux/amd64
        docker-compose.yml, line 4: the network mode `container:x` is not supported: use bridge, host or none
        docker-compose.yml, line 5: `extends` is not supported: write the service out, as `docker compose config` prints it
    "#]].assert_eq(&problems);
}

#[test]
fn images_that_compose_would_build_have_its_names() {
    let text = "services:\n  web: { build: ./web }\n  api: { build: { context: ./api }, image: api:1 }\n  db: { image: redis }\n";
    let stack = load(text, &[]).expect("it is right");
    let images: Vec<_> = stack
        .images()
        .iter()
        .map(|image| (image.name.to_owned(), image.built_from.map(str::to_owned)))
        .collect();
    assert_eq!(
        images,
        [
            ("myshop-web".to_owned(), Some("./web".to_owned())),
            ("api:1".to_owned(), Some("./api".to_owned())),
            ("redis".to_owned(), None)
        ]
    );
}

#[test]
fn the_service_that_ends_the_run_is_checked() {
    let text = "services:\n  db: { image: redis }\n  web: { image: i, depends_on: [db] }\n";
    let stack = load(text, &["db"]).expect("it is right");
    let check = |service: &str| {
        let work = Work { drive: Drive::Until(service.to_owned()), units: None };
        stack
            .check(&work)
            .map_err(|error| error.to_string().rsplit('/').next().unwrap_or_default().to_owned())
    };
    assert_eq!(check("web"), Ok(()));
    let said =
        "docker-compose.yml: web depends on db, so the run cannot end when db ends: name another service";
    assert_eq!(check("db"), Err(said.to_owned()));
    assert_eq!(
        load(text, &["wep"]).map(drop),
        Err("docker-compose.yml has no service `wep`; the nearest name is `web`".to_owned())
    );
    let mut environment = BTreeMap::new();
    environment.insert("A".to_owned(), "1".to_owned());
    assert!(Stack::load(Path::new("/no/such/file"), &environment, &[]).is_err());
}
