// The program generate writes the page of the documentation with all resource types.
package main

import (
	"flag"
	"log"
	"os"

	"github.com/espalier-dev/espalier/providers/aws/crd/table"
)

func main() {
	file := flag.String("file", "", "file to write")
	flag.Parse()
	page, err := table.Page()
	if err == nil {
		err = os.WriteFile(*file, []byte(page), 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
}
