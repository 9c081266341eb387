package local

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/espalier-dev/espalier/internal/composition/packages/local/launch"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/sdk/function"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// life is the variable of an image that makes a function of the test's own program.
const life = "ESPALIER_TEST_FUNCTION"

func TestMain(m *testing.M) {
	EnterNamespaces()
	switch os.Getenv(life) {
	case "":
		os.Exit(m.Run())
	case "good":
		function.Main(observe)
	case "dying":
		fmt.Fprintln(os.Stderr, "there is no configuration")
		os.Exit(3)
	case "unaddressed":
		fmt.Fprintln(os.Stderr, "unknown flag: "+os.Args[len(os.Args)-1])
		os.Exit(2)
	}
}

// observe answers with what the function sees of the machine: the context has a value for each question.
func observe(_ context.Context, _ *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	answer := func(err error) string {
		if err != nil {
			return "no"
		}
		return "yes"
	}
	greeting, _ := os.ReadFile("/link/greeting")
	dir, _ := os.Getwd()
	_, outside := os.Stat(os.Getenv("OUTSIDE"))
	tmp := filepath.Join(os.TempDir(), "x")
	facts := []string{
		"greeting=" + string(greeting), "directory=" + dir, fmt.Sprintf("root=%t", os.Getuid() == 0),
		"outside=" + answer(outside), "tmp=" + answer(os.WriteFile(tmp, nil, 0o600)),
		"own=" + answer(os.WriteFile("/written", nil, 0o600)), "null=" + answer(os.WriteFile("/dev/null", []byte("x"), 0o600)),
		"given=" + os.Getenv("GIVEN"), "image=" + os.Getenv("IMAGE"), "secret=" + os.Getenv("AWS_SECRET_ACCESS_KEY"),
		"arguments=" + strings.Join(os.Args[1:len(os.Args)-1], " "),
	}
	return &fnv1.RunFunctionResponse{Meta: &fnv1.ResponseMeta{Tag: strings.Join(facts, "\n")}}, nil
}

// programImage is an image with the test's own program, which is static, and other entries.
func programImage(t *testing.T, sort string, change func(*v1.ConfigFile), others ...entry) v1.Image {
	t.Helper()
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	entries := append([]entry{
		{name: "usr/bin/function", content: string(self), kind: tar.TypeReg, mode: 0o755}, symlink("bin", "/usr/bin"), folder("srv"),
	}, others...)
	config := &v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH, RootFS: v1.RootFS{Type: "layers"}}
	config.Config = v1.Config{Entrypoint: []string{"function"}, Cmd: []string{"--debug"}, Env: []string{life + "=" + sort, "IMAGE=x", "PATH=/none:/bin"}, WorkingDir: "/srv"}
	if change != nil {
		change(config)
	}
	image, err := mutate.ConfigFile(imageOf(t), config)
	if err != nil {
		t.Fatal(err)
	}
	if image, err = mutate.AppendLayers(image, layerOf(t, entries...)); err != nil {
		t.Fatal(err)
	}
	return image
}

// printed takes what concerns functions.
type printed struct {
	sync.Mutex
	bytes.Buffer
}

func (p *printed) Write(data []byte) (int, error) {
	p.Lock()
	defer p.Unlock()
	return p.Buffer.Write(data)
}

func (p *printed) text() string {
	p.Lock()
	defer p.Unlock()
	return p.String()
}

// newFunctions returns Functions that fetch one image.
func newFunctions(t *testing.T, image v1.Image, change func(*Options)) (*Functions, *printed) {
	t.Helper()
	out := &printed{}
	o := Options{
		Fetch:      func(context.Context, Package, v1.Platform) (v1.Image, error) { return image, nil },
		Store:      NewStore(t.TempDir()),
		Output:     func(string) io.Writer { return out },
		MinBackoff: time.Millisecond, MaxBackoff: time.Second,
		Processes: pipeline.ProcessOptions{MinBackoff: time.Millisecond, MaxBackoff: time.Second},
	}
	if change != nil {
		change(&o)
	}
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f, out
}

// await waits for a state.
func await(t *testing.T, f *Functions, p Package, what string, so func(State) bool) State {
	t.Helper()
	changed := make(chan struct{}, 1)
	stop := f.Subscribe(func(Package) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	defer stop()
	late := time.After(30 * time.Second)
	for {
		s := f.State(p)
		if so(s) {
			return s
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%s, still not so: %+v", what, s)
		}
	}
}

func isReady(s State) bool { return s.Ready }

// call calls the package, with its certificates.
func call(t *testing.T, f *Functions, p Package) (map[string]string, error) {
	t.Helper()
	remote := pipeline.NewRemote(pipeline.RemoteOptions{Endpoints: f, Certificates: f.Identity})
	defer remote.Close()
	response, err := remote.Run(t.Context(), p.Key(), &fnv1.RunFunctionRequest{})
	facts := map[string]string{}
	for line := range strings.SplitSeq(response.GetMeta().GetTag(), "\n") {
		key, value, _ := strings.Cut(line, "=")
		facts[key] = value
	}
	return facts, err
}

var example = Package{Function: "greet", Image: "registry.example.org/greet:v1"}

// restricted is this machine with one method only.
func restricted(t *testing.T, method launch.Method) launch.Machine {
	t.Helper()
	m := ThisMachine()
	switch method {
	case launch.Chroot:
		if m.NoChroot != "" {
			t.Skip("chroot: " + m.NoChroot)
		}
	case launch.Namespaces:
		if m.NoNamespaces != "" {
			t.Skip("user namespaces: " + m.NoNamespaces)
		}
		m.Root, m.NoChroot = false, "not in this test"
	case launch.Direct:
		m.Root, m.NoChroot, m.NoNamespaces = false, "not in this test", "not in this test"
	}
	return m
}

// TestAPackageRuns in each way, and sees of the machine what it should.
func TestAPackageRuns(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux runs images")
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "canary")
	confined := map[string]string{"greeting": "hello", "directory": "/srv", "root": "false", "outside": "no", "tmp": "yes", "own": "no", "secret": "",
		"given": "y", "image": "x", "arguments": "--debug"}
	cases := map[launch.Method]struct {
		others []entry
		want   map[string]string
	}{
		launch.Chroot:     {[]entry{file("data/greeting", "hello"), symlink("link", "/data")}, confined},
		launch.Namespaces: {[]entry{file("data/greeting", "hello"), symlink("link", "/data")}, confined},
		launch.Direct:     {nil, map[string]string{"tmp": "yes", "secret": "", "given": "y", "image": "x", "outside": "yes"}},
	}
	for method, tc := range cases {
		t.Run(string(method), func(t *testing.T) {
			machine := restricted(t, method)
			f, out := newFunctions(t, programImage(t, "good", nil, tc.others...), func(o *Options) {
				o.Machine = func() launch.Machine { return machine }
				o.Environment = []string{"GIVEN=y", "OUTSIDE=" + outside}
			})
			f.Start(example)
			if err := f.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			await(t, f, example, "it is ready", isReady)
			got, err := call(t, f, example)
			if err != nil {
				t.Fatal(err, out.text())
			}
			for fact, want := range tc.want {
				if got[fact] != want {
					t.Errorf("%s: want %q, got %q", fact, want, got[fact])
				}
			}
			if got["null"] != "yes" {
				t.Error("/dev/null cannot be written")
			}
			if text := out.text(); !strings.Contains(text, "fetching "+example.Image) || !strings.Contains(text, method.String()) {
				t.Errorf("want a line on what is run and how, got %q", text)
			}
			endpoint, err := f.Endpoint(t.Context(), example.Key())
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
			if connection, err := net.Dial("tcp", strings.TrimPrefix(endpoint.Target, "passthrough:///")); err == nil {
				connection.Close()
				t.Error("it still runs")
			}
			if left, _ := filepath.Glob(filepath.Join(f.options.Store.Dir, "*", "root", ownDirectory, "*")); len(left) > 0 {
				t.Errorf("its own files are left: %v", left)
			}
		})
	}
}

// TestOnlyThisProgramCallsAPackage with the certificate that it keeps in memory, and only under its own name.
func TestOnlyThisProgramCallsAPackage(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux runs images")
	}
	f, _ := newFunctions(t, programImage(t, "good", nil), nil)
	f.Start(example)
	await(t, f, example, "it is ready", isReady)
	at, err := f.Endpoint(t.Context(), example.Key())
	if err != nil {
		t.Fatal(err)
	}
	other, _ := newFunctions(t, nil, nil)
	function, err := f.authority.issue("function", 1) // ServerAuth, as another function has
	if err != nil {
		t.Fatal(err)
	}
	function.CA = f.authority.client.CA
	cases := map[string]struct {
		identity pipeline.Identity
		name     string
		allowed  bool
	}{
		"Ours":                         {f.authority.client, at.ServerName, true},
		"OurCertificateForAnotherName": {f.authority.client, "other.function.localhost", false},
		"ACertificateOfAnotherRun":     {pipeline.Identity{CA: f.authority.client.CA, Certificate: other.authority.client.Certificate, Key: other.authority.client.Key}, at.ServerName, false},
		"TheCertificateOfAFunction":    {function, at.ServerName, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			remote := pipeline.NewRemote(pipeline.RemoteOptions{
				Endpoints:    fixed{pipeline.Endpoint{Target: at.Target, ServerName: tc.name}},
				Certificates: func() (pipeline.Identity, error) { return tc.identity, nil },
			})
			defer remote.Close()
			if _, err := remote.Run(t.Context(), "f", &fnv1.RunFunctionRequest{}); (err == nil) != tc.allowed {
				t.Errorf("allowed %t, got %v", tc.allowed, err)
			}
		})
	}
}

type fixed struct{ to pipeline.Endpoint }

func (f fixed) Endpoint(context.Context, string) (pipeline.Endpoint, error) { return f.to, nil }

func TestAPackageThatDoesNotRun(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux runs images")
	}
	cases := map[string]struct {
		image   v1.Image
		machine launch.Machine
		want    []string
	}{
		"ItExits": {programImage(t, "dying", nil), ThisMachine(), []string{"exit status 3; output: there is no configuration"}},
		"ItDoesNotKnowTheFlag": {programImage(t, "unaddressed", nil), ThisMachine(),
			[]string{"unknown flag: --address=127.0.0.1:", "run it yourself and pass --function greet=ENDPOINT"}},
		"AnotherPlatform": {programImage(t, "good", func(c *v1.ConfigFile) { c.Architecture = "s390x" }), ThisMachine(),
			[]string{"its image is for linux/s390x", "pass --function greet=./program"}},
		"NoEntrypoint": {programImage(t, "good", func(c *v1.ConfigFile) { c.Config.Entrypoint, c.Config.Cmd = nil, nil }), ThisMachine(),
			[]string{"its entrypoint cannot be run: the image has none"}},
		"AnEntrypointThatDoesNotExist": {programImage(t, "good", func(c *v1.ConfigFile) { c.Config.Entrypoint[0] = "/missing" }), ThisMachine(),
			[]string{"the image has no program /missing"}},
		"NoWayToConfineIt": {programImage(t, "good", nil, file("data", "x")), restricted(t, launch.Direct),
			[]string{"the image has /data", "Allow user namespaces", "pass --function greet=./program"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f, _ := newFunctions(t, tc.image, func(o *Options) {
				o.Machine = func() launch.Machine { return tc.machine }
				o.Processes.MinBackoff = time.Hour
			})
			f.Start(example)
			if err := f.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			s := f.State(example)
			for _, want := range tc.want {
				if !s.Failed || !strings.Contains(s.Message, want) {
					t.Errorf("want %q, got %+v", want, s)
				}
			}
		})
	}
}

// TestAFailedFetchIsRepeated and an image that is refused is not fetched again.
func TestAFailedFetchIsRepeated(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux runs images")
	}
	image := programImage(t, "good", nil)
	fetches := 0
	f, out := newFunctions(t, nil, func(o *Options) {
		o.Fetch = func(_ context.Context, p Package, platform v1.Platform) (v1.Image, error) {
			if p != example || platform.OS != "linux" {
				t.Errorf("fetched %v for %v", p, platform)
			}
			if fetches++; fetches < 3 {
				return nil, errors.New("503 Service Unavailable")
			}
			return image, nil
		}
	})
	f.Start(example)
	await(t, f, example, "it is ready", isReady)
	if fetches != 3 || strings.Count(out.text(), "503") != 2 {
		t.Errorf("fetched %d times: %s", fetches, out.text())
	}
}

func TestAPackageRunsOnceForAllItsUsers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux runs images")
	}
	f, out := newFunctions(t, programImage(t, "good", nil), nil)
	f.Start(example)
	f.Start(example)
	first := await(t, f, example, "it is ready", isReady)
	f.Stop(example)
	if s := f.State(example); s != first || strings.Count(out.text(), "running") != 1 {
		t.Errorf("want it to run once and on, got %+v, %s", s, out.text())
	}
	f.Stop(example)
	if s := f.State(example); s != (State{}) {
		t.Errorf("want it forgotten, got %+v", s)
	}
}
