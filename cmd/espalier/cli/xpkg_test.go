package cli

import (
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/espalier-dev/espalier/internal/composition/packages/xpkg"
)

// packageFolder is a folder with a package, and a registry with TLS.
type packageFolder struct {
	dir, registry, ca string
	stop              func()
}

func newPackages(t *testing.T) packageFolder {
	t.Helper()
	server := httptest.NewUnstartedServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that do not trust it
	server.StartTLS()
	t.Cleanup(server.Close)
	p := packageFolder{dir: t.TempDir(), registry: strings.TrimPrefix(server.URL, "https://"), stop: server.Close}
	p.ca = p.file(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	if err := os.CopyFS(filepath.Join(p.dir, "platform-package"), os.DirFS(documentedFiles+"/files/platform-package")); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p packageFolder) path(name string) string { return filepath.Join(p.dir, name) }

func (p packageFolder) file(t *testing.T, name, text string) string {
	t.Helper()
	path := p.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// program is a file with the header of a static program for a machine.
func (p packageFolder) program(t *testing.T, machine elf.Machine) string {
	t.Helper()
	header := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Ehsize: 64, Phentsize: 56, Shentsize: 64}
	copy(header.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	raw, err := binary.Append(nil, binary.LittleEndian, header)
	if err != nil {
		t.Fatal(err)
	}
	return p.file(t, machine.String(), string(raw))
}

// image is a file with an image of random layers for linux/s390x.
func (p packageFolder) image(t *testing.T, name string) string {
	t.Helper()
	image, err := random.Image(2000, 2)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "s390x"
	if image, err = mutate.ConfigFile(image, config); err == nil {
		err = tarball.WriteToFile(p.path(name), nil, image)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p.path(name)
}

// must runs a command that succeeds, and returns what it prints.
func must(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := call(t.Context(), args...)
	if code != exitDone {
		t.Fatalf("espalier %s: exit code %d: %s", strings.Join(args, " "), code, errs)
	}
	return out
}

// TestAPackageIsBuiltPushedAndInspected runs the commands of docs/packages.md with a registry of its own.
func TestAPackageIsBuiltPushedAndInspected(t *testing.T) {
	p := newPackages(t)
	file, cache := p.path("platform.xpkg"), p.path("cache")
	built := must(t, "xpkg", "build", "-f", p.path("platform-package"), "-o", file)
	digest := strings.Fields(built)[1]
	for _, version := range []string{"v1.0.0", "v1.10.0", "v2.0.0"} {
		to := p.registry + "/team/platform:" + version
		if pushed := must(t, "xpkg", "push", to, "-f", file, "--ca-bundle", p.ca); pushed != to+"@"+digest+"\n" {
			t.Errorf("pushed %s, built %s", pushed, built)
		}
	}
	if out := must(t, "xpkg", "inspect", file); !strings.Contains(out, digest) || !strings.Contains(out, "Function    registry.example.org/team/function-ready  >=1.0.0 <2\n") || strings.Contains(out, "problem") {
		t.Errorf("of the file, it prints\n%s", out)
	}
	out := must(t, "xpkg", "inspect", p.registry+"/team/platform", "--version", ">=1.0.0 <2", "--ca-bundle", p.ca, "--cache-dir", cache)
	if !strings.Contains(out, "REFERENCE   "+p.registry+"/team/platform:v1.10.0\n") {
		t.Errorf("the newest version in the range is another:\n%s", out)
	}
	var found inspected
	if err := json.Unmarshal([]byte(must(t, "xpkg", "inspect", p.registry+"/team/platform:v1.0.0", "-o", "json", "--insecure-registry", p.registry, "--cache-dir", cache)), &found); err != nil {
		t.Fatal(err)
	}
	if found.Digest != digest || len(found.Objects) != 2 || !found.Objects[0].Installed || len(found.Problems) != 0 || found.Crossplane != ">=2.0.0" {
		t.Errorf("%+v", found)
	}
	p.stop()
	if out := must(t, "xpkg", "inspect", p.registry+"/team/platform:v1.0.0", "--pull-policy", "Never", "--cache-dir", cache); !strings.Contains(out, digest) {
		t.Errorf("without the registry, it prints\n%s", out)
	}
	if code, _, errs := call(t.Context(), "xpkg", "inspect", p.registry+"/team/platform:v3.0.0", "--pull-policy", "Never", "--cache-dir", cache); code != exitFailed || !strings.Contains(errs, "not in the cache") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

func TestAFunctionIsPushedForTwoPlatforms(t *testing.T) {
	p := newPackages(t)
	p.file(t, "function/crossplane.yaml", "apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: function-mine}\nspec: {capabilities: [composition]}\n")
	var files []string
	for _, machine := range []elf.Machine{elf.EM_X86_64, elf.EM_AARCH64} {
		file := p.path(machine.String() + ".xpkg")
		must(t, "xpkg", "build", "-f", p.path("function"), "--embed-runtime-binary", p.program(t, machine), "-o", file)
		files = append(files, file)
	}
	to := p.registry + "/team/function-mine:v1.0.0"
	must(t, "xpkg", "push", to, "-f", strings.Join(files, ","), "-a", "org.opencontainers.image.source=https://git.example.org/mine", "--insecure-registry", p.registry)
	if out := must(t, "xpkg", "inspect", to, "--ca-bundle", p.ca, "--cache-dir", p.path("cache")); !strings.Contains(out, "PLATFORMS     linux/amd64, linux/arm64\n") || !strings.Contains(out, "CAPABILITIES  composition\n") {
		t.Errorf("it prints\n%s", out)
	}
	if code, _, errs := call(t.Context(), "xpkg", "push", to, "-f", files[0]+","+files[0], "--ca-bundle", p.ca); code != exitFailed || !strings.Contains(errs, "two of the packages are for linux/amd64") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	image, tar := p.image(t, "image.tar"), p.path("from-tarball.xpkg")
	must(t, "xpkg", "build", "-f", p.path("function"), "--embed-runtime-image-tarball", image, "-o", tar)
	if out := must(t, "xpkg", "inspect", tar); !strings.Contains(out, "PLATFORMS     linux/s390x\n") {
		t.Errorf("with the image of a tarball, it prints\n%s", out)
	}
	// The file of a package is the tarball of an image, but not of one to run.
	if code, _, errs := call(t.Context(), "xpkg", "build", "-f", p.path("function"), "--embed-runtime-image-tarball", files[0], "-o", p.path("no.xpkg")); code != exitFailed || !strings.Contains(errs, "is a package itself") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

func TestWhichFilesAPackageIsBuiltOf(t *testing.T) {
	const kind = "apiVersion: apiextensions.crossplane.io/v1\nkind: Composition\nmetadata: {name: "
	cases := map[string]struct {
		files   map[string]string
		args    []string
		objects []string
		problem string
	}{
		"all below the folder, not those of examples": {map[string]string{"a.yaml": kind + "a}", "b/c/b.yml": kind + "b}", "examples/it.yaml": "kind: Any", "b/notes.json": "{}"}, nil, []string{"a", "b"}, ""},
		"not those of hidden folders":                 {map[string]string{"a.yaml": kind + "a}", ".github/workflows/ci.yaml": "on: push"}, nil, []string{"a"}, ""},
		"files that match are left out":               {map[string]string{"a.yaml": kind + "a}", "b/kustomization.yaml": "resources: []"}, []string{"--ignore", "*/kustomization.yaml"}, []string{"a"}, ""},
		"folders too":                                 {map[string]string{"a.yaml": kind + "a}", "test/data/b.yaml": "kind: Any"}, []string{"--ignore", "test"}, []string{"a"}, ""},
		"a folder that is named like another one":     {map[string]string{"examples-of-use/a.yaml": kind + "a}"}, nil, []string{"a"}, ""},
		"a pattern that is none":                      {nil, []string{"--ignore", "["}, nil, "syntax error in pattern"},
		"all problems, each with its file":            {map[string]string{"b/a.yaml": "\n" + kind + "a}\n---\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: a}", "c.yaml": "a: ["}, nil, nil, "b/a.yaml:6: ConfigMap a: a package cannot contain ConfigMap of v1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := packageFolder{dir: t.TempDir()}
			p.file(t, "package/crossplane.yaml", "apiVersion: meta.pkg.crossplane.io/v1\nkind: Configuration\nmetadata: {name: it}\n")
			for path, text := range tc.files {
				p.file(t, "package/"+path, text)
			}
			code, out, errs := call(t.Context(), append([]string{"xpkg", "build", "-f", p.path("package")}, tc.args...)...)
			files, err := filepath.Glob(p.path("package/*.xpkg"))
			if tc.problem != "" {
				if code == exitDone || !strings.Contains(errs, tc.problem) || len(files) > 0 {
					t.Errorf("exit code %d: %s, files %v", code, errs, files)
				}
				return
			}
			if err != nil || len(files) != 1 || !strings.HasPrefix(out, files[0]+"\nsha256:") {
				t.Fatalf("exit code %d: %s%s, files %v", code, out, errs, files)
			}
			_, pkg, _, err := readPackage(files[0])
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range pkg.Objects {
				got = append(got, o.GetName())
			}
			if !slices.Equal(got, tc.objects) {
				t.Errorf("it has %v", got)
			}
		})
	}
}

func TestXpkgArguments(t *testing.T) {
	cases := map[string]struct {
		args []string
		code int
		says string
	}{
		"build of no folder":              {[]string{"xpkg", "build", "-f", "missing"}, exitFailed, "missing: no such file"},
		"build of a file":                 {[]string{"xpkg", "build", "-f", "a.xpkg"}, exitUsage, "is not a folder"},
		"build of an empty folder":        {[]string{"xpkg", "build", "-f", "empty"}, exitFailed, "it has no metadata"},
		"build with a folder as argument": {[]string{"xpkg", "build", "empty"}, exitUsage, "build takes no arguments"},
		"build with two runtimes":         {[]string{"xpkg", "build", "--embed-runtime-binary", "a", "--embed-runtime-image-tarball", "b"}, exitFailed, "embed-runtime"},
		"push of no reference":            {[]string{"xpkg", "push"}, exitUsage, "push takes one reference"},
		"push to no registry":             {[]string{"xpkg", "push", "team/platform:v1"}, exitUsage, "must begin with a registry"},
		"push of several files":           {[]string{"xpkg", "push", "registry.example.org/team/platform:v1"}, exitUsage, "this folder has 2 packages"},
		"push of no package":              {[]string{"xpkg", "push", "registry.example.org/team/platform:v1", "-f", "a.xpkg"}, exitFailed, "a.xpkg is not a package"},
		"push without a tag":              {[]string{"xpkg", "push", "registry.example.org/team/platform", "-f", "built.xpkg"}, exitFailed, "under a tag"},
		"inspect of a missing file":       {[]string{"xpkg", "inspect", "missing.xpkg"}, exitFailed, "missing.xpkg is not a package"},
		"inspect of neither":              {[]string{"xpkg", "inspect", "missing"}, exitUsage, "there is no file missing, and it is no reference"},
		"inspect with another policy":     {[]string{"xpkg", "inspect", "built.xpkg", "--pull-policy", "Sometimes"}, exitUsage, "Always, IfNotPresent or Never"},
		"no certificates":                 {[]string{"xpkg", "inspect", "registry.example.org/a:v1", "--ca-bundle", "a.xpkg", "--cache-dir", "cache"}, exitFailed, "no certificate in PEM"},
		"an unknown command":              {[]string{"xpkg", "biuld"}, exitUsage, "did you mean build?"},
	}
	dir := t.TempDir()
	p := packageFolder{dir: dir}
	p.file(t, "a.xpkg", "text")
	p.file(t, "empty/notes.txt", "")
	p.file(t, "source/crossplane.yaml", "apiVersion: meta.pkg.crossplane.io/v1\nkind: Configuration\nmetadata: {name: it}\n")
	must(t, "xpkg", "build", "-f", p.path("source"), "-o", p.path("built.xpkg"))
	t.Chdir(dir)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			code, _, errs := call(t.Context(), tc.args...)
			if code != tc.code || !strings.Contains(errs, tc.says) {
				t.Errorf("exit code %d: %s", code, errs)
			}
		})
	}
}

// aLargePackage is one for the test of widths.
func aLargePackage() *inspected {
	pkg, problems := xpkg.Parse(xpkg.File{Name: "package.yaml", Text: `
apiVersion: meta.pkg.crossplane.io/v1
kind: Configuration
metadata: {name: platform-networks-and-databases}
spec:
  crossplane: {version: ">=2.0.0"}
  dependsOn:
  - {provider: registry.example.org/platform-engineering/production/provider-networks-and-databases, version: ">=1.14.0 <2.0.0-0"}
  - {function: registry.example.org/platform-engineering/function-auto-ready, version: ">=0.2.0"}
---
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: networks.platform.production.example.org}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings-of-the-platform}
`})
	out := describePackage(pkg, problems)
	out.Reference, out.Digest, out.Size = "registry.example.org/platform-engineering/production/platform-networks-and-databases:v1.20.3", "sha256:"+strings.Repeat("a1", 32), 123456
	out.Platforms = []string{"linux/amd64", "linux/arm64", "linux/ppc64le", "linux/s390x"}
	return &out
}
