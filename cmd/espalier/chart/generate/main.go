// Command generate writes the generated files of the chart.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/espalier-dev/espalier/cmd/espalier/chart"
)

func main() {
	files, err := chart.Generated()
	if err != nil {
		log.Fatal(err)
	}
	const dir = "../../../charts/espalier"
	if err := os.RemoveAll(filepath.Join(dir, "files/policies")); err != nil {
		log.Fatal(err)
	}
	for path, text := range files {
		to := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
