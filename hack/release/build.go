package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	repository = "github.com/espalier-dev/espalier"
	program    = "espalier"
	awsProgram = "espalier-provider-aws" // the same with AWS's SDK
	// controlPlane is the API server of 'espalier up' and 'espalier demo'. It does not run on Windows.
	controlPlane = "espalier-controlplane"
	license      = "Apache-2.0"
)

// source is where a program's main package is.
type source struct {
	module  string // its folder in the repository
	folder  string // of the package in the module; empty for the module's own
	ldflags func(ctx context.Context, o *options) (string, error)
}

var sources = map[string]source{
	program:      {module: "cmd/espalier", ldflags: versionFlags},
	awsProgram:   {module: "cmd/espalier", folder: awsProgram, ldflags: versionFlags},
	controlPlane: {module: "controlplane", folder: "cmd/" + controlPlane, ldflags: kubernetesFlags},
}

func versionFlags(_ context.Context, o *options) (string, error) {
	return "-X " + repository + "/cmd/espalier/cli.version=" + o.version, nil
}

// kubernetesFlags set the version that the API server reports, as hack/build.sh does.
func kubernetesFlags(ctx context.Context, o *options) (string, error) {
	const module, variables = "k8s.io/kubernetes", "k8s.io/component-base/version"
	version, err := output(ctx, filepath.Join(o.root, "controlplane"), o.environment(platform{runtime.GOOS, runtime.GOARCH}), "go", "list", "-m", "-f", "{{.Version}}", module)
	if err != nil {
		return "", err
	}
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	return fmt.Sprintf("-X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s", variables, version, major, minor), nil
}

// built is a program for one platform.
type built struct {
	platform
	program string
	binary  []byte
	modules []module // that it contains
}

// file is the name of a program's file.
func (p platform) file(program string) string {
	if p.os == "windows" {
		return program + ".exe"
	}
	return program
}

// name is how the names of files that belong to the program begin.
func (b *built) name(o *options) string {
	return b.program + "_" + o.version + "_" + b.os + "_" + b.arch
}

// settings are those of the Go tool that do not change what is built: where modules and compiled packages
// come from. They may be in the file that go env -w writes.
func settings(ctx context.Context) ([]string, error) {
	names := []string{"GOPROXY", "GOPRIVATE", "GONOPROXY", "GOSUMDB", "GONOSUMDB", "GOINSECURE", "GOVCS", "GOMODCACHE", "GOCACHE", "GOTOOLCHAIN"}
	out, err := output(ctx, ".", nil, "go", append([]string{"env"}, names...)...)
	if err != nil {
		return nil, err
	}
	var set []string
	for i, value := range strings.Split(out, "\n") {
		set = append(set, names[i]+"="+value)
	}
	return set, nil
}

// environment is that of the Go tool, beside its settings: no other variable of the caller changes what
// is built.
func (o *options) environment(p platform) []string {
	return append(slices.Clone(o.settings),
		"GOENV=off", "GOWORK=off", "GOFLAGS=", "GOEXPERIMENT=", "GODEBUG=", "GOFIPS140=off",
		"CGO_ENABLED=0", // a static program
		"GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0")
}

// build builds a program for one platform into a directory.
func build(ctx context.Context, o *options, p platform, name, directory string) (*built, error) {
	begin := time.Now()
	from := sources[name]
	ldflags, err := from.ldflags(ctx, o)
	if err != nil {
		return nil, err
	}
	module := filepath.Join(o.root, filepath.FromSlash(from.module))
	path := filepath.Join(directory, p.os+"-"+p.arch, p.file(name))
	args := []string{
		"build", "-trimpath", "-buildvcs=false", "-mod=readonly",
		"-gcflags=all=-dwarf=false", // the linker would omit it anyway; the Makefile builds with the same settings
		"-ldflags=-s -w " + ldflags,
		"-o", path, "./" + from.folder,
	}
	if _, err := output(ctx, module, o.environment(p), "go", args...); err != nil {
		return nil, err
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	b := &built{platform: p, program: name, binary: binary}
	if b.modules, err = modulesOf(ctx, o, p, module, "./"+from.folder); err != nil {
		return nil, err
	}
	fmt.Printf("built %s for %s: %d MiB, %d s\n", p.file(name), p, len(binary)>>20, int(time.Since(begin).Seconds()))
	return b, nil
}

// runsOn says whether a program runs on a platform.
func runsOn(name string, p platform) bool { return name != controlPlane || p.os != "windows" }

// buildAll builds programs for all platforms that they run on.
func buildAll(ctx context.Context, o *options, names ...string) ([]*built, error) {
	directory, err := os.MkdirTemp("", "espalier-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(directory)
	var all []*built
	for _, p := range o.platforms {
		for _, name := range names {
			if !runsOn(name, p) {
				continue
			}
			b, err := build(ctx, o, p, name, directory)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p, err)
			}
			all = append(all, b)
		}
	}
	return all, nil
}

// printed is what the program prints for a release. It is the same on all platforms, so the program of this one prints it.
type printed struct {
	completions map[string][]byte // by file name
	crds        []byte
}

func printAll(ctx context.Context, all []*built) (out printed, err error) {
	var here *built
	for _, b := range all {
		if b.program == program && b.os == runtime.GOOS && b.arch == runtime.GOARCH {
			here = b
		}
	}
	if here == nil {
		return out, fmt.Errorf("--platforms must have %s/%s, on which the program prints its completion scripts", runtime.GOOS, runtime.GOARCH)
	}
	directory, err := os.MkdirTemp("", "espalier-release-")
	if err != nil {
		return out, err
	}
	defer os.RemoveAll(directory)
	path := filepath.Join(directory, here.file(program))
	if err := os.WriteFile(path, here.binary, 0o700); err != nil {
		return out, err
	}
	crds, err := output(ctx, directory, nil, path, "install", "--crds-only")
	if err != nil {
		return out, err
	}
	out.crds, out.completions = []byte(crds+"\n"), map[string][]byte{}
	for shell, name := range map[string]string{"bash": program + ".bash", "zsh": "_" + program, "fish": program + ".fish"} {
		text, err := output(ctx, directory, nil, path, "completion", shell)
		if err != nil {
			return out, err
		}
		if !strings.Contains(text, program) {
			return out, fmt.Errorf("the completion script for %s is empty", shell)
		}
		out.completions[name] = []byte(text + "\n")
	}
	return out, nil
}
