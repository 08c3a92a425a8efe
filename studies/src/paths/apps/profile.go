// Prints Docker's default seccomp profile for a container without capabilities, as an OCI runtime reads it.
package main

import (
	"encoding/json"
	"log"
	"os"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

func main() {
	container := &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}}
	profile, err := seccomp.GetDefaultProfile(container)
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(profile); err != nil {
		log.Fatal(err)
	}
}
