package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var chartVersions = regexp.MustCompile(`(?m)^(version|appVersion):.*$`)

// addChart packs the Helm chart with the version of the release, as helm package does.
func addChart(o *options, files map[string][]byte) error {
	directory := filepath.Join(o.root, "charts", program)
	if _, err := os.Stat(filepath.Join(directory, "Chart.yaml")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	contents, err := filesOf(directory, program)
	if err != nil {
		return err
	}
	version := strings.TrimPrefix(o.version, "v") // Helm's versions have no prefix
	for i, f := range contents {
		if f.name == program+"/Chart.yaml" {
			contents[i].content = chartVersions.ReplaceAllFunc(f.content, func(line []byte) []byte {
				if bytes.HasPrefix(line, []byte("app")) {
					return []byte("appVersion: " + o.version)
				}
				return []byte("version: " + version)
			})
		}
	}
	// Helm expects Chart.yaml first.
	contents = slices.DeleteFunc(contents, func(f file) bool { return f.isDirectory() })
	slices.SortStableFunc(contents, func(a, b file) int {
		first := func(f file) int {
			if f.name == program+"/Chart.yaml" {
				return 0
			}
			return 1
		}
		return first(a) - first(b)
	})
	raw, err := tarOf(contents, o.date)
	if err != nil {
		return err
	}
	files[program+"-"+version+".tgz"], err = compress(raw)
	return err
}
