package xpkg

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	sigsyaml "sigs.k8s.io/yaml"
)

// Names in the images of packages.
const (
	// annotation on the descriptor of a layer says what it contains. In a file, which is a tarball of Docker, layers have no annotations:
	// a label of the image's configuration, annotation:<digest of the layer>, has the value instead.
	annotation = "io.crossplane.xpkg"
	// base is the value for the layer with the stream, and examples for the one with examples.
	base     = "base"
	examples = "upbound"

	streamFile   = "package.yaml"
	examplesFile = ".up/examples.yaml"

	// Extension is how the names of files with packages end.
	Extension = ".xpkg"
)

// Build returns the image of a package, and what it consists of. The problems of files are an error, warnings included. The image is the runtime
// with a layer for the stream and one for the examples, if there are any; nil is no runtime. The same input gives the same image.
func Build(files, exampleFiles []File, runtime v1.Image) (v1.Image, *Package, error) {
	pkg, problems := Parse(files...)
	if err := Errors(problems, true); err != nil {
		return nil, nil, err
	}
	stream, err := pkg.stream()
	if err != nil {
		return nil, nil, err
	}
	if runtime == nil {
		runtime = empty.Image
	}
	if marked, err := baseLayer(runtime); err != nil {
		return nil, nil, err
	} else if marked != nil {
		return nil, nil, errors.New("the image to run is a package itself: it would be read instead of this one")
	}
	config, err := runtime.ConfigFile()
	if err != nil {
		return nil, nil, err
	}
	config = config.DeepCopy()
	layers := []v1.Layer{}
	add := func(file, value string, content []byte) error {
		layer, err := fileLayer(file, content)
		if err != nil {
			return err
		}
		digest, err := layer.Digest()
		if err != nil {
			return err
		}
		if config.Config.Labels == nil {
			config.Config.Labels = map[string]string{}
		}
		config.Config.Labels[annotation+":"+digest.String()] = value
		layers = append(layers, layer)
		return nil
	}
	if err := add(streamFile, base, stream); err != nil {
		return nil, nil, err
	}
	if len(exampleFiles) > 0 {
		text, err := exampleStream(exampleFiles)
		if err != nil {
			return nil, nil, err
		}
		if err := add(examplesFile, examples, text); err != nil {
			return nil, nil, err
		}
	}
	image, err := mutate.AppendLayers(runtime, layers...)
	if err != nil {
		return nil, nil, err
	}
	image, err = mutate.Config(image, config.Config)
	return image, pkg, err
}

// stream is the YAML stream of the package, the metadata first. Objects are encoded anew, so comments and the formatting of files do not count.
func (p *Package) stream() ([]byte, error) {
	var out bytes.Buffer
	for _, o := range append([]map[string]any{p.meta.Object}, contents(p)...) {
		text, err := sigsyaml.Marshal(o)
		if err != nil {
			return nil, err
		}
		out.WriteString("---\n")
		out.Write(text)
		if out.Len() > MaxStream {
			return nil, fmt.Errorf("the package has more than %d bytes", MaxStream)
		}
	}
	return out.Bytes(), nil
}

func contents(p *Package) (out []map[string]any) {
	for _, o := range p.Objects {
		out = append(out, o.Object)
	}
	return out
}

// exampleStream joins examples as they are written: people read them.
func exampleStream(files []File) ([]byte, error) {
	p := &parser{pkg: &Package{}}
	var out bytes.Buffer
	for _, f := range files {
		p.file(f)
		if text := strings.TrimSpace(f.Text); text != "" {
			fmt.Fprintf(&out, "---\n%s\n", strings.TrimPrefix(text, "---\n"))
		}
	}
	return out.Bytes(), Errors(p.problems, true)
}

func fileLayer(name string, content []byte) (v1.Layer, error) {
	return tarLayer(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}, func() io.Reader { return bytes.NewReader(content) })
}

// tarLayer is a layer with one file. Its content is read each time the layer is.
func tarLayer(header *tar.Header, content func() io.Reader) (v1.Layer, error) {
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		var head, tail bytes.Buffer
		w := tar.NewWriter(&head)
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		tail.Write(make([]byte, -header.Size&511)) // a file is padded to blocks of 512 bytes
		tail.Write(make([]byte, 1024))             // two empty blocks end the archive
		return io.NopCloser(io.MultiReader(&head, io.LimitReader(content(), header.Size), &tail)), nil
	})
}

// Annotate returns the image with the annotations of its layers that are labels of its configuration, and further annotations of its manifest:
// as a registry gets it.
func Annotate(image v1.Image, more map[string]string) (v1.Image, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	adds := make([]mutate.Addendum, len(layers))
	for i, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return nil, err
		}
		adds[i] = mutate.Addendum{Layer: layer}
		if value := config.Config.Labels[annotation+":"+digest.String()]; value != "" {
			adds[i].Annotations = map[string]string{annotation: value}
		}
	}
	annotated, err := mutate.Append(empty.Image, adds...)
	if err != nil {
		return nil, err
	}
	if annotated, err = mutate.ConfigFile(annotated, config); err != nil || len(more) == 0 {
		return annotated, err
	}
	return mutate.Annotations(annotated, more).(v1.Image), nil
}

// FileName is the name of the file with a package: its name, and twelve digits of the digest of its image.
func FileName(pkg *Package, digest v1.Hash) string {
	return fmt.Sprintf("%s-%.12s%s", pkg.Meta.Metadata.Name, digest.Hex, Extension)
}
