// Command release builds what is published of a version: archives of the programs with their
// SBOMs, checksums, shell completions, a krew manifest, and a container image as an OCI layout. It
// needs neither a container engine nor a registry. The same commit, version and Go toolchain give the
// same bytes.
//
//	go run -C hack/release . image --version v1.2.3
//	go run -C hack/release . release --version v1.2.3 --base-url https://example.com/downloads/v1.2.3
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

// options say what is built. With the Go toolchain and the source, they determine every byte.
type options struct {
	root, output     string
	version          string
	revision         string
	date             time.Time // of all files
	platforms        []platform
	baseURL, project string   // of the archives, and of the home page, in the krew manifest
	settings         []string // of the Go tool
}

// platform is an operating system and architecture, as Go calls them.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

var (
	archivePlatforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64"
	imagePlatforms   = "linux/amd64,linux/arm64"
)

func run(ctx context.Context, args []string) error {
	usage := errors.New("usage: release image|release [flags]")
	if len(args) == 0 {
		return usage
	}
	platforms := map[string]string{"image": imagePlatforms, "release": archivePlatforms}[args[0]]
	if platforms == "" {
		return usage
	}
	o, err := parse(ctx, args[0], platforms, args[1:])
	if err != nil {
		return err
	}
	if args[0] == "image" {
		return buildImage(ctx, o)
	}
	return buildRelease(ctx, o)
}

// imageTag is the syntax of a tag of an image. A version is one.
var imageTag = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

// semantic is the syntax of a version of a release. Build metadata is not part of it, since "+" is no
// character of a tag.
var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

func parse(ctx context.Context, command, platforms string, args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.StringVar(&o.root, "root", "../..", "the source tree")
	flags.StringVar(&o.output, "output", "", "the directory to write to; by default dist in the source tree, and dist/image for an image")
	flags.StringVar(&o.version, "version", "", "the version; by default from git describe")
	flags.StringVar(&o.revision, "revision", "", "the commit; by default the source tree's")
	flags.StringVar(&o.baseURL, "base-url", "", "where the archives will be downloaded from; without it, no krew manifest is written")
	flags.StringVar(&o.project, "homepage", "", "the home page in the krew manifest")
	list := flags.String("platforms", platforms, "the platforms")
	epoch := flags.String("epoch", os.Getenv("SOURCE_DATE_EPOCH"),
		"the date of all files, in seconds since 1970; by default $SOURCE_DATE_EPOCH, or the date of the commit")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	var err error
	if o.root, err = filepath.Abs(o.root); err != nil {
		return nil, err
	}
	if o.output == "" {
		o.output = filepath.Join(o.root, "dist")
		if command == "image" {
			o.output = filepath.Join(o.output, "image")
		}
	}
	for _, unset := range []struct {
		value *string
		git   []string
	}{
		{&o.version, []string{"describe", "--tags", "--match=v[0-9]*", "--always", "--dirty"}},
		{&o.revision, []string{"describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"}},
		{epoch, []string{"log", "-1", "--format=%ct"}},
	} {
		if *unset.value == "" {
			if *unset.value, err = output(ctx, o.root, nil, "git", unset.git...); err != nil {
				return nil, err
			}
		}
	}
	seconds, err := strconv.ParseInt(*epoch, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("--epoch: %w", err)
	}
	o.date = time.Unix(seconds, 0).UTC()
	if !imageTag.MatchString(o.version) {
		return nil, fmt.Errorf("--version %q is not the tag of an image", o.version)
	}
	if command == "release" && !semantic.MatchString(o.version) {
		return nil, fmt.Errorf("--version must be like v1.2.3 or v1.2.3-rc.1, not %q", o.version)
	}
	for name := range strings.SplitSeq(*list, ",") {
		system, arch, ok := strings.Cut(name, "/")
		if !ok || system == "" || arch == "" {
			return nil, fmt.Errorf("--platforms: %q is not like linux/amd64", name)
		}
		o.platforms = append(o.platforms, platform{system, arch})
	}
	o.settings, err = settings(ctx)
	return o, err
}

// output runs a command with additional variables, and returns what it prints, without the last newline.
func output(ctx context.Context, dir string, environment []string, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir, command.Stderr = dir, os.Stderr
	command.Env = append(os.Environ(), environment...)
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
