// The program generate downloads the schemas of resource types and writes types.zip and types.tsv into the
// directory of the package catalog.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"
	"path/filepath"

	"github.com/espalier-dev/espalier/providers/aws/catalog/build"
)

func main() {
	version := flag.String("version", "", "version of the package")
	sum := flag.String("sha256", "", "SHA-256 of the package's wheel")
	directory := flag.String("directory", ".", "directory to write to")
	flag.Parse()
	if err := generate(*version, *sum, *directory); err != nil {
		log.Fatal(err)
	}
}

func generate(version, sum, directory string) error {
	if version == "" || sum == "" {
		return errors.New("--version and --sha256 are required for reproducible output")
	}
	wheel, err := build.Download(context.Background(), version, sum)
	if err != nil {
		return err
	}
	schemas, err := build.From(wheel)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(directory, "types.zip"), schemas.Archive, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(directory, "types.tsv"), schemas.Index, 0o644)
}
