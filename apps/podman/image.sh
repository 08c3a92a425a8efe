# Makes an image in /tmp/image, in the format of the Open Container Initiative. One layer is busybox, the other is Debian's
# libraries as data.
set -e
image=/tmp/image
mkdir -p $image/blobs/sha256 /tmp/base/bin /tmp/base/tmp /tmp/base/etc /tmp/layers

cp /usr/bin/busybox /tmp/base/bin/
for name in sh ls cat cp seq sync; do
    ln -s busybox /tmp/base/bin/$name
done
tar -cf /tmp/layers/1 --mtime=@0 -C /tmp/base .
tar -cf /tmp/layers/2 --mtime=@0 -C / usr/lib/x86_64-linux-gnu

# Moves a file to its place among the blobs, and prints its description.
blob() {
    sum=$(sha256sum "$2" | cut -d' ' -f1)
    printf '{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%s}' "$1" "$sum" "$(stat -c %s "$2")"
    mv "$2" $image/blobs/sha256/"$sum"
}

ids='' layers=''
for layer in 1 2; do
    ids="$ids${ids:+,}\"sha256:$(sha256sum /tmp/layers/$layer | cut -d' ' -f1)\""
    gzip -1 -n /tmp/layers/$layer
    layers="$layers${layers:+,}$(blob layer.v1.tar+gzip /tmp/layers/$layer.gz)"
done
printf '{"architecture":"%s","os":"linux","config":{"Cmd":["sh"],"Env":["PATH=/bin"]},"rootfs":{"type":"layers","diff_ids":[%s]}}' \
    "$(dpkg --print-architecture)" "$ids" >/tmp/config
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s,"layers":[%s]}' \
    "$(blob config.v1+json /tmp/config)" "$layers" >/tmp/manifest
printf '{"schemaVersion":2,"manifests":[%s]}' "$(blob manifest.v1+json /tmp/manifest)" >$image/index.json
echo '{"imageLayoutVersion":"1.0.0"}' >$image/oci-layout
