package launch_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/composition/packages/local/launch"
)

func TestDecide(t *testing.T) {
	user := launch.Machine{OS: "linux", Architecture: "amd64", NoChroot: "only root can use it"}
	root := launch.Machine{OS: "linux", Architecture: "amd64", Root: true}
	with := func(m launch.Machine, change func(*launch.Machine)) launch.Machine {
		change(&m)
		return m
	}
	withoutNamespaces := func(m *launch.Machine) { m.NoNamespaces = "operation not permitted" }
	static := launch.Image{OS: "linux", Architecture: "amd64", Command: []string{"/function", "--debug"}, Program: "/function", Static: true}
	image := func(change func(*launch.Image)) launch.Image {
		i := static
		change(&i)
		return i
	}
	type want struct {
		method launch.Method
		uid    int
		err    string
	}
	cases := map[string]struct {
		reason  string
		image   launch.Image
		machine launch.Machine
		want    want
	}{
		"RootUsesChroot": {
			reason: "a program is confined wherever the machine allows it, and never runs as root",
			image:  static, machine: root, want: want{method: launch.Chroot, uid: 65532},
		},
		"AUserUsesNamespaces": {
			reason: "a user cannot change the root without a namespace",
			image:  static, machine: user, want: want{method: launch.Namespaces, uid: 65532},
		},
		"RootWithoutChrootUsesNamespaces": {
			reason: "some containers withhold it",
			image:  static, machine: with(root, func(m *launch.Machine) { m.NoChroot = "root lacks CAP_SYS_CHROOT here" }), want: want{method: launch.Namespaces, uid: 65532},
		},
		"TheImagesUserIsUsed": {
			reason: "its files can be meant for that user",
			image:  image(func(i *launch.Image) { i.User = "2000:2000" }), machine: root, want: want{method: launch.Chroot, uid: 2000},
		},
		"TheImagesUserIsRoot": {
			reason: "no program runs as root",
			image:  image(func(i *launch.Image) { i.User = "0:0" }), machine: root, want: want{method: launch.Chroot, uid: 65532},
		},
		"TheImagesUserHasAName": {
			reason: "names are in a file of the image",
			image:  image(func(i *launch.Image) { i.User = "nonroot:nonroot" }), machine: root, want: want{method: launch.Chroot, uid: 65532},
		},
		"AStaticProgramNeedsNoRoot": {
			reason: "it needs no file of its image",
			image:  static, machine: with(user, withoutNamespaces), want: want{method: launch.Direct, uid: 65532},
		},
		"AStaticProgramWithFiles": {
			reason: "it may read a file that is elsewhere without its root",
			image:  image(func(i *launch.Image) { i.Beside = "/templates/a.yaml" }), machine: with(user, withoutNamespaces),
			want: want{err: "the image has /templates/a.yaml. Allow user namespaces to this user, or run this command as root"},
		},
		"AnInterpretedProgram": {
			reason: "its interpreter is in the image",
			image:  image(func(i *launch.Image) { i.Static, i.Program = false, "/usr/bin/python3" }), machine: with(user, withoutNamespaces),
			want: want{err: "user namespaces: operation not permitted. Without one, only a static program runs, and /usr/bin/python3 is not static"},
		},
		"RootWithoutAnything": {
			reason: "a program that is not confined would run as root",
			image:  static, machine: with(root, func(m *launch.Machine) {
				m.NoChroot, m.NoNamespaces = "root lacks CAP_SYS_CHROOT here", "no space left on device"
			}),
			want: want{err: "chroot: root lacks CAP_SYS_CHROOT here; user namespaces: no space left on device. Without one, it would run as root"},
		},
		"AnotherArchitecture": {
			reason: "the kernel does not run it",
			image:  image(func(i *launch.Image) { i.Architecture = "arm64" }), machine: root,
			want: want{err: "its image is for linux/arm64, and this machine is linux/amd64"},
		},
		"AnotherSystem": {
			reason: "there is no Linux kernel to run it",
			image:  static, machine: launch.Machine{OS: "darwin", Architecture: "amd64"},
			want: want{err: "its image is for linux/amd64, and this machine is darwin/amd64"},
		},
		"NoProgram": {
			reason: "nothing can be run",
			image:  image(func(i *launch.Image) { i.Problem = "the image has none" }), machine: root,
			want: want{err: "its entrypoint cannot be run: the image has none"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l, err := launch.Decide(tc.image, tc.machine)
			if tc.want.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want.err) {
					t.Errorf("%s: want %q, got %v", tc.reason, tc.want.err, err)
				}
				return
			}
			if got := (want{method: l.Method, uid: l.UID}); err != nil || got != tc.want {
				t.Errorf("%s: want %v, got %v, %v", tc.reason, tc.want, got, err)
			}
		})
	}
}

func TestALaunchIsAsTheImageSays(t *testing.T) {
	i := launch.Image{OS: "linux", Architecture: "amd64", Command: []string{"function", "--debug"}, Program: "/bin/function", Environment: []string{"A=b"}, Directory: "srv"}
	got, err := launch.Decide(i, launch.Machine{OS: "linux", Architecture: "amd64", Root: true})
	want := launch.Launch{Method: launch.Chroot, Program: "/bin/function", Arguments: []string{"function", "--debug"},
		Environment: []string{"PATH=" + launch.DefaultPath, "A=b"}, Directory: "/srv", UID: 65532}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	i.Environment = []string{"PATH=/opt"}
	if got, err = launch.Decide(i, launch.Machine{OS: "linux", Architecture: "amd64", Root: true}); err != nil || len(got.Environment) != 1 {
		t.Errorf("want the image's PATH alone, got %v, %v", got.Environment, err)
	}
}

func TestWhatAStaticProgramDoesWithout(t *testing.T) {
	for file, want := range map[string]bool{
		"/etc/ssl/certs/ca-certificates.crt": true, "/usr/share/zoneinfo/Europe/Berlin": true, "/var/lib/dpkg/status.d/base": true, "/package.yaml": true,
		"/lib/x86_64-linux-gnu/libc.so.6": true, "/usr/lib/os-release": true, "/home/nonroot/.bashrc": true, "/usr/sbin/tzconfig": true,
		"/templates/a.yaml": false, "/usr/bin/git": false, "/etcetera/x": false, "/app/data.json": false, "/usr/share/kcl/x.k": false,
	} {
		if got := launch.IsUnneeded(file); got != want {
			t.Errorf("%s: want %t", file, want)
		}
	}
}
