// Package charts has the Helm chart, for 'espalier install', which renders it without Helm.
package charts

import (
	"embed"
	"io/fs"
)

//go:embed all:espalier
var files embed.FS

// Espalier returns the files of the chart.
func Espalier() fs.FS {
	chart, err := fs.Sub(files, "espalier")
	if err != nil {
		panic(err) // the directory is embedded
	}
	return chart
}
