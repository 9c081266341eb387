package xpkg

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/espalier-dev/espalier/internal/object/bounded"
)

// layerOf is a layer with files: names and contents in turn. A name with a slash at its end is a folder.
func layerOf(t *testing.T, files ...string) v1.Layer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		header := &tar.Header{Name: files[i], Size: int64(len(files[i+1])), Mode: 0o644, Typeflag: tar.TypeReg}
		if strings.HasSuffix(files[i], "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return rawLayer(t, b.Bytes())
}

func rawLayer(t *testing.T, content []byte) v1.Layer {
	t.Helper()
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func imageOf(t *testing.T, adds ...mutate.Addendum) v1.Image {
	t.Helper()
	image, err := mutate.Append(empty.Image, adds...)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// tooLarge is the header of a file that is larger than a stream may be, and nothing of it.
func tooLarge(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(&tar.Header{Name: "package.yaml", Size: MaxStream + 1, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestStream(t *testing.T) {
	plain := func(layers ...v1.Layer) (out []mutate.Addendum) {
		for _, l := range layers {
			out = append(out, mutate.Addendum{Layer: l})
		}
		return out
	}
	marked := func(l v1.Layer) mutate.Addendum {
		return mutate.Addendum{Layer: l, Annotations: map[string]string{"io.crossplane.xpkg": "base"}}
	}
	cases := map[string]struct {
		layers        []mutate.Addendum
		want, problem string
	}{
		"the marked layer":                    {append(plain(layerOf(t, "package.yaml", "low")), marked(layerOf(t, "package.yaml", "marked")), mutate.Addendum{Layer: layerOf(t, "package.yaml", "high")}), "marked", ""},
		"only that one is read":               {append(plain(rawLayer(t, []byte("no archive"))), marked(layerOf(t, "package.yaml", "marked"))), "marked", ""},
		"the marked layer without a stream":   {append(plain(layerOf(t, "package.yaml", "low")), marked(layerOf(t, "other.yaml", ""))), "", "not a package"},
		"no mark, the upper layer":            {plain(layerOf(t, "package.yaml", "low"), layerOf(t, "other.yaml", "", "package.yaml", "high")), "high", ""},
		"no mark, in a folder":                {plain(layerOf(t, "a/", "", "a/package.yaml", "in a folder")), "in a folder", ""},
		"no mark, a lower layer":              {plain(layerOf(t, "package.yaml", "low"), layerOf(t, "other.yaml", "")), "low", ""},
		"removed by an upper layer":           {plain(layerOf(t, "package.yaml", "low"), layerOf(t, ".wh.package.yaml", "")), "", "not a package"},
		"its folder is removed":               {plain(layerOf(t, "a/b/package.yaml", "low"), layerOf(t, ".wh.a", "")), "", "not a package"},
		"its folder is replaced":              {plain(layerOf(t, "a/package.yaml", "low"), layerOf(t, "a/.wh..wh..opq", "")), "", "not a package"},
		"removed, and there is another":       {plain(layerOf(t, "package.yaml", "low", "b/package.yaml", "other"), layerOf(t, ".wh.package.yaml", "")), "other", ""},
		"a whiteout does not hide upper ones": {plain(layerOf(t, ".wh.package.yaml", ""), layerOf(t, "package.yaml", "high")), "high", ""},
		"nor those of its own layer":          {plain(layerOf(t, ".wh.package.yaml", "", "package.yaml", "same")), "same", ""},
		"a folder of that name":               {plain(layerOf(t, "package.yaml/", "")), "", "not a package"},
		"no layers":                           {nil, "", "not a package"},
		"larger than allowed":                 {plain(rawLayer(t, tooLarge(t))), "", "more than the 209715200 that are allowed"},
		"an archive that ends too early":      {plain(rawLayer(t, tooLarge(t)[:300])), "", "read a layer of the package"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Stream(imageOf(t, tc.layers...))
			if string(got) != tc.want || (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestUnpackingIsBounded(t *testing.T) {
	exceeded := errors.New("too much")
	layer := layerOf(t, "large", strings.Repeat("\x00", 1<<20), "package.yaml", "after it")
	if size, err := layer.Size(); err != nil || size > 10_000 {
		t.Fatalf("the layer has %d bytes, %v", size, err)
	}
	if _, _, err := streamIn(layer, map[string]bool{}, bounded.NewBudget(100_000, exceeded)); !errors.Is(err, exceeded) {
		t.Errorf("error %v", err)
	}
}
