// The program generate writes the pages of the documentation with all resource types.
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"

	"github.com/espalier-dev/espalier/providers/aws/crd/table"
)

func main() {
	dir := flag.String("dir", "", "directory to write to")
	flag.Parse()
	pages, err := table.Pages()
	if err != nil {
		log.Fatal(err)
	}
	for file, page := range pages {
		if err := os.WriteFile(filepath.Join(*dir, file), []byte(page), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
