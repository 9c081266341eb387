package xpkg

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func build(t *testing.T, runtime v1.Image, files ...File) v1.Image {
	t.Helper()
	image, _, err := Build(files, []File{{"examples/network.yaml", "# an example\nkind: Network\n"}}, runtime)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func digestOf(t *testing.T, image v1.Image) string {
	t.Helper()
	d, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

// asFile writes a package to a file and reads it again, which loses the annotations of layers.
func asFile(t *testing.T, image v1.Image) v1.Image {
	t.Helper()
	path := filepath.Join(t.TempDir(), "it"+Extension)
	if err := tarball.WriteToFile(path, nil, image); err != nil {
		t.Fatal(err)
	}
	read, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func TestAPackageIsTheSameWhateverTheFilesLookLike(t *testing.T) {
	one := build(t, nil, File{"crossplane.yaml", configuration}, File{"network.yaml", composition})
	other := build(t, nil, File{"crossplane.yaml", "# the platform\nkind: Configuration\nmetadata:\n  name: platform\napiVersion: meta.pkg.crossplane.io/v1\n"},
		File{"network.yaml", "---\n" + composition + "---\n"})
	if a, b := digestOf(t, one), digestOf(t, other); a != b {
		t.Errorf("the digests are %s and %s", a, b)
	}
	changed := build(t, nil, File{"crossplane.yaml", configuration}, File{"network.yaml", strings.Replace(composition, "network", "networks", 1)})
	if digestOf(t, changed) == digestOf(t, one) {
		t.Error("another package has the same digest")
	}
}

func TestAPackageHasItsStreamInAMarkedLayer(t *testing.T) {
	runtime, err := random.Image(1000, 3)
	if err != nil {
		t.Fatal(err)
	}
	for name, base := range map[string]v1.Image{"without a runtime": nil, "with a runtime": runtime} {
		t.Run(name, func(t *testing.T) {
			built := build(t, base, File{"network.yaml", composition}, File{"crossplane.yaml", configuration})
			file := asFile(t, built)
			pushed, err := Annotate(file, map[string]string{"org.opencontainers.image.source": "https://example.org"})
			if err != nil {
				t.Fatal(err)
			}
			for name, image := range map[string]v1.Image{"as it is built": built, "in a file": file, "in a registry": pushed} {
				stream, err := Stream(image)
				want := "---\napiVersion: meta.pkg.crossplane.io/v1\nkind: Configuration\nmetadata:\n  name: platform\n" +
					"---\napiVersion: apiextensions.crossplane.io/v1\nkind: Composition\nmetadata:\n  name: network\n"
				if diff := cmp.Diff(want, string(stream)); err != nil || diff != "" {
					t.Errorf("%s: %v, -want +got:\n%s", name, err, diff)
				}
			}
			manifest, err := pushed.Manifest()
			if err != nil {
				t.Fatal(err)
			}
			var marks []string
			for _, l := range manifest.Layers {
				marks = append(marks, l.Annotations["io.crossplane.xpkg"])
			}
			want := []string{"base", "upbound"}
			if base != nil {
				want = []string{"", "", "", "base", "upbound"}
			}
			if diff := cmp.Diff(want, marks); diff != "" || manifest.Annotations["org.opencontainers.image.source"] == "" {
				t.Errorf("annotations %v, -want +got:\n%s", manifest.Annotations, diff)
			}
		})
	}
}

func TestBuildRefusesProblemsAndWarnings(t *testing.T) {
	cases := map[string]struct {
		files, examples []File
		want            []string
	}{
		"all problems, with their files": {[]File{{"a/crossplane.yaml", configuration}, {"a/crds.yaml", crd}, {"a/data.yaml", "\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\n"}}, nil,
			[]string{"2 problems of the package", "a/crds.yaml:1: CustomResourceDefinition things.example.org: a Configuration does not", "a/data.yaml:2: ConfigMap x: a package cannot contain"}},
		"no files":                        {nil, nil, []string{"it has no metadata"}},
		"an example that cannot be read":  {[]File{{"crossplane.yaml", configuration}}, []File{{"examples/it.yaml", "a: ["}}, []string{"examples/it.yaml:1: "}},
		"a metadata object without names": {[]File{{"crossplane.yaml", "apiVersion: meta.pkg.crossplane.io/v1\nkind: Provider\n"}}, nil, []string{"it has no name"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := Build(tc.files, tc.examples, nil)
			if err == nil {
				t.Fatal("it was built")
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("it does not say %q: %v", part, err)
				}
			}
		})
	}
}

func TestTheRuntimeIsNoPackage(t *testing.T) {
	runtime := asFile(t, build(t, nil, File{"crossplane.yaml", configuration}))
	if _, _, err := Build([]File{{"crossplane.yaml", meta("Function", "{}")}}, nil, runtime); err == nil || !strings.Contains(err.Error(), "is a package itself") {
		t.Errorf("error %v", err)
	}
}

// elfProgram is the header of a program, with a program header of a type. 64-bit.
func elfProgram(order binary.ByteOrder, kind, machine uint16, header uint32) []byte {
	var b bytes.Buffer
	data := byte(1)
	if order == binary.BigEndian {
		data = 2
	}
	b.Write(append([]byte{0x7f, 'E', 'L', 'F', 2, data, 1}, make([]byte, 9)...))
	for _, v := range []any{
		kind, machine, uint32(1), uint64(0), uint64(64), uint64(0), uint32(0), uint16(64), uint16(56), uint16(1), uint16(64), uint16(0), uint16(0),
		header, uint32(5), uint64(0), uint64(0), uint64(0), uint64(0), uint64(0), uint64(0),
	} {
		if err := binary.Write(&b, order, v); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

func TestProgramImage(t *testing.T) {
	little := binary.LittleEndian
	cases := map[string]struct {
		program           []byte
		platform, problem string
	}{
		"amd64":                       {elfProgram(little, 2, 62, 1), "linux/amd64", ""},
		"arm64, position-independent": {elfProgram(little, 3, 183, 1), "linux/arm64", ""},
		"s390x":                       {elfProgram(binary.BigEndian, 2, 22, 1), "linux/s390x", ""},
		"linked dynamically":          {elfProgram(little, 2, 62, 3), "", "linked dynamically"},
		"big-endian PowerPC":          {elfProgram(binary.BigEndian, 2, 21, 1), "", "no platform"},
		"a machine without images":    {elfProgram(little, 2, 8, 1), "", "no platform"},
		"an object file":              {elfProgram(little, 1, 62, 1), "", "object file"},
		"a script":                    {[]byte("#!/bin/sh\nexit 0\n" + strings.Repeat("#", 100)), "", "not a program for Linux"},
		"nothing":                     {nil, "", "not a program for Linux"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			image, err := ProgramImage(bytes.NewReader(tc.program), int64(len(tc.program)))
			if tc.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tc.problem) {
					t.Fatalf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			config, err := asFile(t, build(t, image, File{"crossplane.yaml", meta("Function", "{}")})).ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if p := config.Platform().String(); p != tc.platform || config.Config.User != "2000:2000" || !cmp.Equal(config.Config.Entrypoint, []string{"/runtime"}) {
				t.Errorf("platform %s, configuration %+v", p, config.Config)
			}
		})
	}
}

func TestAnIndexHasAnImageForEachPlatform(t *testing.T) {
	forMachine := func(machine uint16) v1.Image {
		program := elfProgram(binary.LittleEndian, 2, machine, 1)
		image, err := ProgramImage(bytes.NewReader(program), int64(len(program)))
		if err != nil {
			t.Fatal(err)
		}
		return build(t, image, File{"crossplane.yaml", meta("Function", "{}")})
	}
	cases := map[string]struct {
		images  []v1.Image
		problem string
	}{
		"two platforms":               {[]v1.Image{forMachine(62), forMachine(183)}, ""},
		"a platform twice":            {[]v1.Image{forMachine(62), forMachine(62)}, "two of the packages are for linux/amd64"},
		"a package without a runtime": {[]v1.Image{forMachine(62), build(t, nil, File{"crossplane.yaml", configuration})}, "without a platform"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			index, err := Index(tc.images, map[string]string{"a": "b"})
			if tc.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tc.problem) {
					t.Fatalf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			manifest, err := index.IndexManifest()
			if err != nil || len(manifest.Manifests) != 2 || manifest.Manifests[1].Platform.String() != "linux/arm64" || manifest.Annotations["a"] != "b" {
				t.Errorf("%+v, %v", manifest, err)
			}
		})
	}
}
