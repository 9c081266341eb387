package local

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// entry is an entry of a layer.
type entry struct {
	name, content, link string
	kind                byte
	mode                int64
}

func file(name, content string) entry {
	return entry{name: name, content: content, kind: tar.TypeReg, mode: 0o644}
}
func folder(name string) entry       { return entry{name: name, kind: tar.TypeDir, mode: 0o700} }
func symlink(name, to string) entry  { return entry{name: name, link: to, kind: tar.TypeSymlink} }
func hardLink(name, to string) entry { return entry{name: name, link: to, kind: tar.TypeLink} }

func layerOf(t testing.TB, entries ...entry) v1.Layer {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Mode: e.mode, Size: int64(len(e.content)), Uid: 4711, Gid: 4711}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return layer
}

func imageOf(t testing.TB, layers ...v1.Layer) v1.Image {
	t.Helper()
	image, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// list returns the files below a directory: their contents, the targets of links, and modes.
func list(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, _ := filepath.Rel(dir, name)
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(name)
			out[path] = "-> " + to
			return err
		case e.IsDir():
			return nil
		}
		content, err := os.ReadFile(name)
		info, _ := e.Info()
		out[path] = strconv.FormatUint(uint64(info.Mode()), 8) + " " + string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	delete(out, "etc/hosts")
	delete(out, "etc/resolv.conf")
	return out
}

var small = limits{bytes: 1 << 16, entries: 20}

func unpackInto(t *testing.T, dir string, image v1.Image) error {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	_, err = unpack(t.Context(), root, image, small)
	return err
}

func TestUnpack(t *testing.T) {
	cases := map[string]struct {
		reason string
		layers [][]entry
		want   map[string]string
	}{
		"FilesKeepTheirContentOnly": {
			reason: "owners, privileges and devices would give the program more than a user has",
			layers: [][]entry{{
				folder("bin"), {name: "bin/tool", content: "x", kind: tar.TypeReg, mode: 0o6755}, {name: "secret", content: "y", kind: tar.TypeReg, mode: 0o600},
				{name: "bin/device", kind: tar.TypeBlock}, {name: "pipe", kind: tar.TypeFifo},
			}},
			want: map[string]string{"bin/tool": "755 x", "secret": "644 y"},
		},
		"ALaterLayerWins": {
			reason: "layers are applied in their order",
			layers: [][]entry{{file("a", "1"), file("d/f", "1"), symlink("l", "a")}, {file("a", "2"), file("l", "3"), file("d/f", "")}},
			want:   map[string]string{"a": "644 2", "l": "644 3", "d/f": "644 "},
		},
		"AFileReplacesADirectory": {
			reason: "and the other way around",
			layers: [][]entry{{file("a/b", "1"), file("c", "1")}, {file("a", "2"), folder("c"), file("c/d", "2")}},
			want:   map[string]string{"a": "644 2", "c/d": "644 2"},
		},
		"WhiteoutsDelete": {
			reason: "a file, a directory, and nothing that is not there",
			layers: [][]entry{{file("a", "1"), file("d/e/f", "1"), file("keep", "1")}, {file(".wh.a", ""), file("d/.wh.e", ""), file(".wh.none", "")}},
			want:   map[string]string{"keep": "644 1"},
		},
		"AnOpaqueDirectoryHidesTheLayersBelow": {
			reason: "but not what its own layer has, in any order",
			layers: [][]entry{{file("d/old", "1"), file("d/s/old", "1")}, {file("d/s/new", "2"), file("d/.wh..wh..opq", ""), file("d/new", "2")}},
			want:   map[string]string{"d/new": "644 2", "d/s/new": "644 2"},
		},
		"AWhiteoutBesideTheNewFile": {
			reason: "a whiteout is about the layers below",
			layers: [][]entry{{file("d/old", "1")}, {file("d/new", "2"), file(".wh.d", "")}},
			want:   map[string]string{"d/new": "644 2"},
		},
		"LinksToDirectoriesAreFollowedInTheRoot": {
			reason: "as /var/run leads to /run",
			layers: [][]entry{{folder("run"), symlink("var/run", "/run"), symlink("up", "../../../run")}, {file("var/run/pid", "1"), file("up/x", "2")}},
			want:   map[string]string{"run/pid": "644 1", "var/run": "-> /run", "up": "-> ../../../run", "run/x": "644 2"},
		},
		"HardLinks": {
			reason: "they have the file's content, also of a layer below",
			layers: [][]entry{{file("a", "1"), hardLink("b", "/a")}, {hardLink("c", "b"), hardLink("a", "a")}},
			want:   map[string]string{"a": "644 1", "b": "644 1", "c": "644 1"},
		},
		"AbsoluteNames": {
			reason: "they are below the root",
			layers: [][]entry{{file("/a", "1"), file("./b", "2"), folder("/"), folder("./")}},
			want:   map[string]string{"a": "644 1", "b": "644 2"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var layers []v1.Layer
			for _, entries := range tc.layers {
				layers = append(layers, layerOf(t, entries...))
			}
			dir := t.TempDir()
			if err := unpackInto(t, dir, imageOf(t, layers...)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, list(t, dir)); diff != "" {
				t.Errorf("%s: %s", tc.reason, diff)
			}
		})
	}
}

// TestNothingLeavesTheRoot unpacks images that try to change a file beside the root.
func TestNothingLeavesTheRoot(t *testing.T) {
	many := make([]entry, 30)
	for i := range many {
		many[i] = folder(strconv.Itoa(i))
	}
	loop := []entry{symlink("a", "b"), symlink("b", "a"), file("a/x", "")}
	cases := map[string]struct {
		layers [][]entry
		want   string // "" if it is unpacked, below the root
	}{
		"ADirectoryAbove":                 {[][]entry{{file("../victim", "evil")}}, "leaves the image"},
		"ADirectoryAboveInTheMiddle":      {[][]entry{{file("a/../../victim", "evil")}}, "leaves the image"},
		"ASymbolicLinkToADirectoryAbove":  {[][]entry{{symlink("up", ".."), file("up/victim", "evil")}}, ""},
		"AnAbsoluteSymbolicLink":          {[][]entry{{symlink("top", "/"), file("top/victim", "evil")}}, ""},
		"AFileThroughASymbolicLink":       {[][]entry{{symlink("victim", "../victim"), file("victim", "evil")}}, ""},
		"AHardLinkAbove":                  {[][]entry{{hardLink("mine", "../victim"), file("mine", "evil")}}, "leaves the image"},
		"AHardLinkThroughASymbolicLink":   {[][]entry{{symlink("up", ".."), hardLink("mine", "up/victim")}}, "no file of the image"},
		"AHardLinkToASymbolicLink":        {[][]entry{{symlink("s", "../victim"), hardLink("h", "s"), file("h", "evil")}}, ""},
		"AHardLinkToADirectory":           {[][]entry{{folder("d"), hardLink("h", "d")}}, "no file of the image"},
		"AWhiteoutOfTheDirectoryAbove":    {[][]entry{{file(".wh...", "")}}, "deletes no file"},
		"AWhiteoutThroughASymbolicLink":   {[][]entry{{symlink("up", ".."), file("up/.wh.victim", "")}}, ""},
		"AnOpaqueDirectoryAbove":          {[][]entry{{symlink("up", "..")}, {file("up/.wh..wh..opq", "")}}, ""},
		"MountPointsThatAreSymbolicLinks": {[][]entry{{symlink("dev", ".."), symlink("tmp", ".."), symlink(".espalier", ".."), symlink("etc", "..")}}, ""},
		"AFileOfEtcThatIsASymbolicLink":   {[][]entry{{symlink("etc/hosts", "../../victim")}}, ""},
		"ALoop":                           {[][]entry{loop}, "too many symbolic links"},
		"ManyEntries":                     {[][]entry{many[:15], many[:15]}, "number of files"},
		"AHugeFile":                       {[][]entry{{file("x", strings.Repeat("x", 1<<16+1))}}, "larger than allowed"},
		"HugeFilesThatAreDeleted":         {[][]entry{{file("x", strings.Repeat("x", 1<<15+1))}, {file("x", strings.Repeat("x", 1<<15))}}, "larger than allowed"},
		"ALongPath":                       {[][]entry{{file(strings.Repeat("x/", 2100)+"y", "")}}, "too long"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			outside := t.TempDir()
			victim := filepath.Join(outside, "victim")
			if err := os.WriteFile(victim, []byte("good"), 0o600); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(outside, "root")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			var layers []v1.Layer
			for _, entries := range tc.layers {
				layers = append(layers, layerOf(t, entries...))
			}
			err := unpackInto(t, dir, imageOf(t, layers...))
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("want %q, got %v", tc.want, err)
			}
			info, err := os.Lstat(victim)
			content, _ := os.ReadFile(victim)
			if err != nil || info.Mode() != 0o600 || string(content) != "good" {
				t.Errorf("the file beside the root was changed: %v, %q", err, content)
			}
			if entries, _ := os.ReadDir(outside); len(entries) != 2 {
				t.Errorf("there are files beside the root: %v", entries)
			}
		})
	}
}

func TestAStreamThatDoesNotEnd(t *testing.T) {
	zeros := &boundedReader{ctx: t.Context(), from: endless{}, left: 1 << 20}
	if n, err := io.Copy(io.Discard, zeros); n != 1<<20 || err == nil {
		t.Errorf("want an error after a mebibyte, got %d, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := io.Copy(io.Discard, &boundedReader{ctx: ctx, from: endless{}, left: 1 << 20}); err != context.Canceled {
		t.Errorf("want the end of the context, got %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
