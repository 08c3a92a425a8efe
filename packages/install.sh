#!/bin/sh
# Installs fonio: downloads the static program for this processor, and checks its checksum.
#
#     sh install.sh [fonio|fonio-recorder]
#
# FONIO_FROM    where the files of a release are: an address, or a folder. Default: the newest release of the project
# FONIO_TO      the folder to install into. Default: /usr/local/bin as root, otherwise ~/.local/bin
set -eu

fail() {
	echo "install.sh: $*" >&2
	exit 1
}

has() {
	command -v "$1" >/dev/null 2>&1
}

# Downloads or copies the file $1 of the release to $2.
get() {
	case $from in
	http://* | https://*)
		if has curl; then
			curl --fail --silent --location --output "$2" "$from/$1" 2>/dev/null
		else
			wget -q -O "$2" "$from/$1" 2>/dev/null
		fi || fail "cannot download $from/$1; check the address and the network"
		;;
	*) cp "$from/$1" "$2" 2>/dev/null || fail "cannot copy $from/$1; check FONIO_FROM" ;;
	esac
}

main() {
	program=${1:-fonio}
	case $program in
	fonio | fonio-recorder) ;;
	*) fail "there is no program $program; write fonio or fonio-recorder" ;;
	esac
	from=${FONIO_FROM:-https://github.com/fonio/fonio/releases/latest/download}
	# uname tells ARMv6 from ARMv7, which have the same architecture (armhf) in Raspberry Pi OS.
	machine=$(uname -m)
	case $machine in
	x86_64 | amd64) target=x86_64-unknown-linux-musl ;;
	aarch64 | arm64) target=aarch64-unknown-linux-musl ;;
	armv7* | armv8l) target=armv7-unknown-linux-musleabihf ;;
	armv6*) target=arm-unknown-linux-musleabihf ;;
	*) fail "there is no program for the processor $machine; build fonio with cargo (docs/install.md)" ;;
	esac
	case $from in
	http://* | https://*) has curl || has wget || fail "the download needs curl or wget; install one of them" ;;
	esac
	has sha256sum || fail "checking the download needs sha256sum; install coreutils or busybox"
	if [ -n "${FONIO_TO:-}" ]; then
		to=$FONIO_TO
	elif [ "$(id -u)" = 0 ]; then
		to=/usr/local/bin
	else
		to=$HOME/.local/bin
	fi

	scratch=$(mktemp -d) || fail "cannot make a temporary folder; set TMPDIR to a folder that can be written"
	new=
	trap 'rm -rf "$scratch" ${new:+"$new"}' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM

	get SHA256SUMS "$scratch/SHA256SUMS"
	# A line has the checksum, two spaces, and the name with the version and the processor.
	line=$(grep -E "^[0-9a-f]{64}  $program-[0-9].*-$target\$" "$scratch/SHA256SUMS") ||
		fail "$from/SHA256SUMS names no program for $target; check the address"
	file=${line#*  }
	case $file in
	*[!A-Za-z0-9._-]*) fail "$from/SHA256SUMS names several programs for $target; use a folder with one release" ;;
	esac
	get "$file" "$scratch/$file"
	(cd "$scratch" && echo "$line" | sha256sum -c) >/dev/null 2>&1 ||
		fail "$from/$file has the wrong checksum, so nothing was installed; download it again"

	mkdir -p "$to" 2>/dev/null || fail "cannot write to $to; run as root, or set FONIO_TO to another folder"
	# A new file replaces the old one at once, also while the old program runs.
	new=$to/.$program.new
	{ cp "$scratch/$file" "$new" && chmod 755 "$new" && mv -f "$new" "$to/$program"; } 2>/dev/null ||
		fail "cannot write to $to; run as root, or set FONIO_TO to another folder"
	echo "Installed $to/$program (${file#"$program"-})."
	case :$PATH: in
	*:"$to":*) ;;
	*) echo "$to is not in PATH; run $to/$program." ;;
	esac
}

# The last line: a download that was cut does nothing.
main "$@"
