# Makes the folder of Home Assistant's configuration. $1 has this app's files, $2 is the folder.
set -e
own=$2/custom_components/home
mkdir -p "$own"
cp "$1/manifest.json" "$own/manifest.json"
cp "$1/integration.py" "$own/__init__.py"
cp "$1/sensor.py" "$own/sensor.py"
cp "$1/configuration.yaml" "$2/configuration.yaml"
