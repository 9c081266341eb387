package introspect

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

func TestDirectory(t *testing.T) {
	cases := map[string]struct{ runtime, want string }{
		"The runtime directory of the session is the place, where there is one": {"/run/user/7", "/run/user/7/espalier"},
		"Without one it is a directory of this user among the temporary files":  {"", fmt.Sprintf("/of-mine/espalier-%d", os.Getuid())},
		"A relative one is none": {"run", fmt.Sprintf("/of-mine/espalier-%d", os.Getuid())},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_RUNTIME_DIR", tc.runtime)
			t.Setenv("TMPDIR", "/of-mine")
			got := SocketPath(&rest.Config{Host: "https://here:6443"})
			if filepath.Dir(got) != tc.want {
				t.Errorf("%s is not in %s", got, tc.want)
			}
			if base := filepath.Base(got); len(base) != len("0123456789abcdef.sock") || strings.Trim(strings.TrimSuffix(base, ".sock"), "0123456789abcdef") != "" {
				t.Errorf("%s is no cut sum", base)
			}
		})
	}
}

func TestAddressesOfOneClusterHaveOneSocketPath(t *testing.T) {
	secure := rest.TLSClientConfig{CAData: []byte("ca")}
	cases := map[string]struct {
		one, other rest.Config
		same       bool
	}{
		"A slash at the end means nothing":                      {rest.Config{Host: "https://here:6443/"}, rest.Config{Host: "https://here:6443"}, true},
		"Names of hosts have no case":                           {rest.Config{Host: "https://Here.Example.COM"}, rest.Config{Host: "https://here.example.com"}, true},
		"A full name may end in a dot":                          {rest.Config{Host: "https://here.example.com."}, rest.Config{Host: "https://here.example.com"}, true},
		"The usual port needn't be said":                        {rest.Config{Host: "https://here"}, rest.Config{Host: "https://here:443"}, true},
		"Without encryption another port is usual":              {rest.Config{Host: "http://here"}, rest.Config{Host: "http://here:80"}, true},
		"A host with a certificate authority is encrypted":      {rest.Config{Host: "here:6443", TLSClientConfig: secure}, rest.Config{Host: "https://here:6443"}, true},
		"An address has one spelling":                           {rest.Config{Host: "https://[0:0::1]:6443"}, rest.Config{Host: "https://[::1]:6443"}, true},
		"No host is this one":                                   {rest.Config{}, rest.Config{Host: "http://localhost"}, true},
		"How to authenticate doesn't make another cluster":      {rest.Config{Host: "https://here", BearerToken: "a"}, rest.Config{Host: "https://here"}, true},
		"Another port is another cluster":                       {rest.Config{Host: "https://here:6443"}, rest.Config{Host: "https://here:6444"}, false},
		"Behind one host there can be many clusters":            {rest.Config{Host: "https://here/clusters/a"}, rest.Config{Host: "https://here/clusters/b"}, false},
		"What is no address is a place of its own all the same": {rest.Config{Host: "https://a b"}, rest.Config{Host: "https://a c"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			one, other := SocketPath(&tc.one), SocketPath(&tc.other)
			if (one == other) != tc.same {
				t.Errorf("%s and %s", one, other)
			}
		})
	}
}

func TestAbsolute(t *testing.T) {
	t.Chdir("/")
	cases := map[string]struct{ path, want, refused string }{
		"A path is taken from the working directory":     {path: "run/it.sock", want: "/run/it.sock"},
		"A name without a file would be everybody's":     {path: "@it", want: "/@it"},
		"A path of as many bytes as there are is fine":   {path: "/" + strings.Repeat("x", maxSocketPath-1), want: "/" + strings.Repeat("x", maxSocketPath-1)},
		"One byte more is refused, with how many it has": {path: "/" + strings.Repeat("x", maxSocketPath), refused: "can have at most 107 bytes"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := socketPath(tc.path)
			if got != tc.want {
				t.Errorf("it is %q, not %q", got, tc.want)
			}
			if (err != nil) != (tc.refused != "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("refused with %v", err)
			}
		})
	}
}

func TestPrivate(t *testing.T) {
	cases := map[string]struct {
		make    func(t *testing.T, path string) error
		user    int
		refused string
	}{
		"A directory of mode 0700 is fine":               {make: directoryOf(0o700)},
		"What others can read is refused":                {make: directoryOf(0o740), refused: "is open to others (mode 0740)"},
		"What others can write is refused":               {make: directoryOf(0o702), refused: "is open to others (mode 0702)"},
		"What others can pass through is refused":        {make: directoryOf(0o711), refused: "is open to others (mode 0711)"},
		"What belongs to another owner is refused":       {make: directoryOf(0o700), user: 1, refused: "does not belong to this user"},
		"A file is refused":                              {make: func(_ *testing.T, path string) error { return os.WriteFile(path, nil, 0o600) }, refused: "is not a directory"},
		"A link is refused, even to a directory of ours": {make: func(t *testing.T, path string) error { return os.Symlink(t.TempDir(), path) }, refused: "is a symbolic link"},
		"What isn't there is told":                       {make: func(*testing.T, string) error { return nil }, refused: "no such file"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "it")
			if err := tc.make(t, path); err != nil {
				t.Fatal(err)
			}
			err := checkPrivate(path, os.Getuid()+tc.user)
			if (err != nil) != (tc.refused != "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("refused with %v", err)
			}
		})
	}
}

// directoryOf makes a directory of exactly this mode, whatever the umask.
func directoryOf(mode os.FileMode) func(*testing.T, string) error {
	return func(_ *testing.T, path string) error {
		if err := os.Mkdir(path, mode); err != nil {
			return err
		}
		return os.Chmod(path, mode)
	}
}
