# Pulls the image, and names it.
podman tag "$(podman pull -q oci:/tmp/image)" image
