package xpkg

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/espalier-dev/espalier/internal/object/bounded"
)

// ErrNoStream is returned for an image that is not a package.
var ErrNoStream = errors.New("the image is not a package: it has no file " + streamFile)

// Stream returns the YAML stream of a package, from its image: from the layer that is marked as its base, otherwise from the files of all layers.
func Stream(image v1.Image) ([]byte, error) {
	budget := bounded.NewBudget(maxUnpacked, fmt.Errorf("more than %d bytes of it would be unpacked", int64(maxUnpacked)))
	marked, err := baseLayer(image)
	if err != nil {
		return nil, err
	}
	layers := []v1.Layer{marked}
	if marked == nil {
		if layers, err = image.Layers(); err != nil {
			return nil, err
		}
	}
	hidden := map[string]bool{}
	for i := len(layers) - 1; i >= 0; i-- { // a file in an upper layer replaces the one in a lower layer
		stream, found, err := streamIn(layers[i], hidden, budget)
		if err != nil || found {
			return stream, err
		}
	}
	return nil, ErrNoStream
}

// baseLayer is the layer that an annotation, or a label of the configuration, marks as the base; nil if none is.
func baseLayer(image v1.Image) (v1.Layer, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	for _, l := range manifest.Layers {
		if l.Annotations[annotation] == base {
			return image.LayerByDigest(l.Digest)
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	for _, l := range manifest.Layers {
		if config.Config.Labels[annotation+":"+l.Digest.String()] == base {
			return image.LayerByDigest(l.Digest)
		}
	}
	return nil, nil
}

// streamIn looks for the stream in a layer that is below others, which hide files. What it hides itself is added.
func streamIn(layer v1.Layer, hidden map[string]bool, budget *bounded.Budget) (stream []byte, found bool, err error) {
	content, err := layer.Uncompressed()
	if err != nil {
		return nil, false, err
	}
	defer content.Close()
	var hides []string
	files := tar.NewReader(budget.Reader(content))
	for {
		header, err := files.Next()
		switch {
		case errors.Is(err, io.EOF):
			for _, name := range hides {
				hidden[name] = true
			}
			return nil, false, nil
		case err != nil:
			return nil, false, fmt.Errorf("read a layer of the package: %w", err)
		}
		name := path.Clean("/" + header.Name)
		dir, file := path.Split(name)
		switch below, isWhiteout := strings.CutPrefix(file, ".wh."); {
		case file == ".wh..wh..opq":
			hides = append(hides, path.Clean(dir))
		case isWhiteout:
			hides = append(hides, dir+below)
		case file == streamFile && header.Typeflag == tar.TypeReg && !isHidden(name, hidden):
			return readStream(files, header.Size)
		}
		if len(hides) > maxWhiteouts {
			return nil, false, fmt.Errorf("a layer of the package removes more than %d files", maxWhiteouts)
		}
	}
}

func readStream(file io.Reader, size int64) ([]byte, bool, error) {
	if size > MaxStream {
		return nil, false, fmt.Errorf("%s has %d bytes, more than the %d that are allowed", streamFile, size, MaxStream)
	}
	stream, err := io.ReadAll(file)
	if err != nil {
		return nil, false, fmt.Errorf("read %s: %w", streamFile, err)
	}
	return stream, true, nil
}

// isHidden reports whether an upper layer removes a file, or a folder that it is in.
func isHidden(name string, hidden map[string]bool) bool {
	for ; name != "/"; name = path.Dir(name) {
		if hidden[name] {
			return true
		}
	}
	return hidden["/"]
}
