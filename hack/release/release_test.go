package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/x509"
	"debug/buildinfo"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

const chart = "apiVersion: v2\nname: espalier\nversion: 0.0.0\nappVersion: 0.0.0\n"

// tree writes a source tree with what the release reads of it, dated by the caller.
func tree(t *testing.T, date time.Time) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range map[string]string{
		"LICENSE": "Apache License, Version 2.0", "README.md": "readme", "README.zh-CN.md": "readme",
		"charts/espalier/Chart.yaml": chart, "charts/espalier/templates/deployment.yaml": "kind: Deployment\n", "charts/espalier/.helmignore": "*.md\n",
	} {
		path := filepath.Join(root, name)
		if err := write(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, date, date); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// programs are the test's own program for some platforms: it has the build information that an SBOM needs.
func programs(t *testing.T, platforms ...platform) (all []*built) {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	licence := []text{{"LICENSE", []byte("Permission is hereby granted, free of charge, to any person")}}
	modules := []module{{path: repository}, {path: standardLibrary, version: info.GoVersion, texts: licence}}
	for _, m := range info.Deps {
		modules = append(modules, module{path: m.Path, version: m.Version, texts: licence})
	}
	for _, p := range platforms {
		for _, name := range []string{program, awsProgram, controlPlane} {
			if !runsOn(name, p) {
				continue
			}
			all = append(all, &built{platform: p, program: name, binary: binary, modules: modules})
		}
	}
	return all
}

var texts = printed{
	completions: map[string][]byte{"espalier.bash": []byte("# bash"), "_espalier": []byte("# zsh"), "espalier.fish": []byte("# fish")},
	crds:        []byte("kind: CustomResourceDefinition\n"),
}

// released writes a release, and returns its files.
func released(t *testing.T, date time.Time, mode fs.FileMode) (string, map[string][]byte) {
	t.Helper()
	linux, windows := platform{"linux", "amd64"}, platform{"windows", "amd64"}
	o := &options{
		root: tree(t, date), output: filepath.Join(t.TempDir(), "dist"), version: "v1.2.3", revision: "abc", date: time.Unix(1_700_000_000, 0).UTC(),
		platforms: []platform{linux, windows}, baseURL: "https://example.com/v1.2.3/", project: "https://example.com",
	}
	if err := os.Mkdir(o.output, mode); err != nil {
		t.Fatal(err)
	}
	if err := writeRelease(o, programs(t, linux, windows), texts); err != nil {
		t.Fatal(err)
	}
	found, err := filesOf(o.output, "")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range found {
		if !f.isDirectory() {
			files[f.name] = f.content
		}
	}
	return o.output, files
}

// TestTheSameInputsGiveTheSameBytes writes a release twice, from source trees in different places and
// of different dates.
func TestTheSameInputsGiveTheSameBytes(t *testing.T) {
	_, first := released(t, time.Unix(1_000_000_000, 0), 0o755)
	_, second := released(t, time.Now(), 0o700)
	if a, b := slices.Sorted(maps.Keys(first)), slices.Sorted(maps.Keys(second)); !slices.Equal(a, b) {
		t.Fatalf("the files are %q and %q", a, b)
	}
	for name := range first {
		if !bytes.Equal(first[name], second[name]) {
			t.Errorf("%s differs", name)
		}
	}
}

func TestARelease(t *testing.T) {
	output, files := released(t, time.Now(), 0o755)

	t.Run("lists the digest of each file", func(t *testing.T) {
		listed := map[string]string{}
		for line := range strings.Lines(string(files[checksums])) {
			digest, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
			listed[name] = digest
		}
		for name, content := range files {
			if name == checksums || strings.HasPrefix(name, "image/") { // the archive of the image is listed
				continue
			}
			if got := fmt.Sprintf("%x", sha256.Sum256(content)); listed[name] != got {
				t.Errorf("%s has the digest %s; %s is listed", name, got, listed[name])
			}
			delete(listed, name)
		}
		if len(listed) > 0 {
			t.Errorf("there are no files %v", listed)
		}
	})

	t.Run("has archives with the programs, their licences and completion scripts", func(t *testing.T) {
		want := []string{
			"LICENSE 644", "README.md 644", "README.zh-CN.md 644", "THIRD_PARTY_LICENSES 644",
			"completions/_espalier 644", "completions/espalier.bash 644", "completions/espalier.fish 644",
		}
		if got := tarContents(t, files["espalier_v1.2.3_linux_amd64.tar.gz"]); !slices.Equal(got, append(slices.Clone(want), "espalier 755", "espalier-controlplane 755")) {
			t.Errorf("the archive for Linux has %q", got)
		}
		if got := zipContents(t, files["espalier_v1.2.3_windows_amd64.zip"]); !slices.Equal(got, append(slices.Clone(want), "espalier.exe 755")) {
			t.Errorf("the archive for Windows has %q", got)
		}
		want = append(want[:4:4], "espalier-provider-aws 755")
		if got := tarContents(t, files["espalier-provider-aws_v1.2.3_linux_amd64.tar.gz"]); !slices.Equal(got, want) {
			t.Errorf("the archive of the program with AWS has %q", got)
		}
	})

	t.Run("has a krew manifest", func(t *testing.T) {
		var manifest struct {
			APIVersion, Kind string
			Metadata         struct{ Name string }
			Spec             struct {
				Version, ShortDescription, Homepage string
				Platforms                           []struct {
					URI, SHA256, Bin string
					Selector         struct{ MatchLabels map[string]string }
					Files            []struct{ From, To string }
				}
			}
		}
		if err := yaml.Unmarshal(files["krew/espalier.yaml"], &manifest); err != nil {
			t.Fatal(err)
		}
		spec := manifest.Spec
		if manifest.Kind != "Plugin" || manifest.Metadata.Name != "espalier" || spec.Version != "v1.2.3" || spec.ShortDescription == "" || spec.Homepage == "" || len(spec.Platforms) != 2 {
			t.Fatalf("the manifest is %+v", manifest)
		}
		for _, p := range spec.Platforms {
			name, found := strings.CutPrefix(p.URI, "https://example.com/v1.2.3/")
			if !found || p.SHA256 != fmt.Sprintf("%x", sha256.Sum256(files[name])) {
				t.Errorf("%s has the digest %s", p.URI, p.SHA256)
			}
			if p.Bin != (platform{os: p.Selector.MatchLabels["os"]}).file(program) || p.Files[0].From != p.Bin {
				t.Errorf("%s has the program %s", p.URI, p.Bin)
			}
		}
	})

	t.Run("has the CustomResourceDefinitions", func(t *testing.T) {
		if got := string(files["espalier_v1.2.3_crds.yaml"]); got != string(texts.crds) {
			t.Errorf("got %q", got)
		}
	})

	t.Run("has the chart, with its version", func(t *testing.T) {
		name := "espalier-1.2.3.tgz"
		want := []string{"espalier/Chart.yaml 644", "espalier/.helmignore 644", "espalier/templates/deployment.yaml 644"}
		if got := tarContents(t, files[name]); !slices.Equal(got, want) {
			t.Errorf("the chart has %q", got)
		}
		if got := firstFile(t, files[name]); got != "apiVersion: v2\nname: espalier\nversion: 1.2.3\nappVersion: v1.2.3\n" {
			t.Errorf("Chart.yaml is %q", got)
		}
	})

	t.Run("replaces an earlier one, and nothing else", func(t *testing.T) {
		if err := removeRelease(output); err != nil {
			t.Fatal(err)
		}
		if entries, err := os.ReadDir(output); err != nil || len(entries) > 0 {
			t.Errorf("it has left %v, %v", entries, err)
		}
		if err := write(filepath.Join(output, "notes.txt"), nil); err != nil {
			t.Fatal(err)
		}
		if err := removeRelease(output); err == nil || !strings.Contains(err.Error(), "notes.txt is not of a release") {
			t.Errorf("the error is %v", err)
		}
		if err := checkReplaceable(output); err == nil {
			t.Error("an image would replace a directory that is no OCI layout")
		}
	})
}

func reader(t *testing.T, archive []byte) *tar.Reader {
	t.Helper()
	raw, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	return tar.NewReader(raw)
}

func firstFile(t *testing.T, archive []byte) string {
	t.Helper()
	r := reader(t, archive)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func tarContents(t *testing.T, archive []byte) (contents []string) {
	t.Helper()
	r := reader(t, archive)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return contents
		}
		if err != nil {
			t.Fatal(err)
		}
		contents = append(contents, fmt.Sprintf("%s %o", header.Name, header.Mode))
	}
}

func zipContents(t *testing.T, archive []byte) (contents []string) {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.File {
		contents = append(contents, fmt.Sprintf("%s %o", f.Name, f.Mode().Perm()))
	}
	return contents
}

func TestArgumentsAreChecked(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string
	}{
		"a version of a release":              {args: []string{"release", "--version=v1.2.3"}},
		"a version before a release":          {args: []string{"release", "--version=v1.2.3-rc.1"}},
		"a commit is no version":              {args: []string{"release", "--version=a7a05f7"}, want: "must be like v1.2.3"},
		"build metadata is no tag":            {args: []string{"release", "--version=v1.2.3+1"}, want: "not the tag of an image"},
		"an image of a commit":                {args: []string{"image", "--version=a7a05f7-dirty"}},
		"a platform without architecture":     {args: []string{"image", "--version=v1.2.3", "--platforms=linux"}, want: "not like linux/amd64"},
		"a date that is no number":            {args: []string{"image", "--version=v1.2.3", "--epoch=today"}, want: "--epoch"},
		"an argument that belongs to no flag": {args: []string{"image", "--version=v1.2.3", "x"}, want: `unexpected argument "x"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			// What is not given here comes from the repository.
			args := append([]string{"--revision=abc", "--epoch=1700000000"}, tc.args[1:]...)
			_, err := parse(t.Context(), tc.args[0], imagePlatforms, args)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestLicencesAreRecognized(t *testing.T) {
	cases := map[string]struct {
		texts []text
		want  []string
	}{
		"by their words, however the lines break": {
			texts: []text{{"LICENSE", []byte("                Apache License\n            Version\t2.0, January 2004")}},
			want:  []string{"Apache-2.0"},
		},
		"the longer BSD licence": {
			texts: []text{{"LICENSE", []byte("Redistribution and use in source and binary forms ... endorse or\npromote products")}},
			want:  []string{"BSD-3-Clause"},
		},
		"the shorter BSD licence": {
			texts: []text{{"LICENSE", []byte("Redistribution and use in source and binary forms")}},
			want:  []string{"BSD-2-Clause"},
		},
		"several files, sorted": {
			texts: []text{{"LICENSE.libyaml", []byte("Permission is hereby granted, free of charge")}, {"LICENSE", []byte("Apache License Version 2.0")}},
			want:  []string{"Apache-2.0", "MIT"},
		},
		"a notice is no licence": {texts: []text{{"NOTICE", []byte("Apache License Version 2.0")}}},
		"an unknown text":        {texts: []text{{"LICENSE", []byte("All rights reserved")}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := (&module{texts: tc.texts}).licences(); !slices.Equal(got, tc.want) {
				t.Errorf("licences %q, not %q", got, tc.want)
			}
		})
	}
}

func TestRootCertificatesAreValid(t *testing.T) {
	raw, err := rootCertificates()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if !c.IsCA {
			t.Errorf("%s is no certificate authority", c.Subject)
		}
		n++
	}
	if n < 100 {
		t.Errorf("there are only %d certificate authorities", n)
	}
}
