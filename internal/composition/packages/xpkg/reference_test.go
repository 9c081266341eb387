package xpkg

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func TestParseReference(t *testing.T) {
	cases := map[string]struct {
		text    string
		want    Reference
		version string
		problem string
	}{
		"a tag":                        {"registry.example.org/team/network:v1.2.0", Reference{"registry.example.org/team/network", "v1.2.0", ""}, "v1.2.0", ""},
		"a digest":                     {"registry.example.org/network@" + digest, Reference{"registry.example.org/network", "", digest}, digest, ""},
		"a tag and a digest":           {"registry.example.org/network:v1@" + digest, Reference{"registry.example.org/network", "v1", digest}, digest, ""},
		"neither":                      {"registry.example.org/network", Reference{"registry.example.org/network", "", ""}, "", ""},
		"a registry with a port":       {"localhost:5000/network:v1", Reference{"localhost:5000/network", "v1", ""}, "v1", ""},
		"a port and no tag":            {"127.0.0.1:5000/network", Reference{"127.0.0.1:5000/network", "", ""}, "", ""},
		"the name that users write":    {"docker.io/team/network:v1", Reference{"docker.io/team/network", "v1", ""}, "v1", ""},
		"no registry":                  {text: "team/network:v1", problem: "must begin with a registry"},
		"no path":                      {text: "registry.example.org", problem: "must begin with a registry"},
		"nothing":                      {text: "", problem: "must begin with a registry"},
		"an empty tag":                 {text: "registry.example.org/network:", problem: "tag"},
		"a tag with a space":           {text: "registry.example.org/network:v 1", problem: "tag"},
		"upper case in the repository": {text: "registry.example.org/Network:v1", problem: "repository"},
		"a short digest":               {text: "registry.example.org/network@sha256:abc", problem: "is not a digest"},
		"another algorithm":            {text: "registry.example.org/network@sha512:" + strings.Repeat("a", 128), problem: "is not a digest"},
		"an empty digest":              {text: "registry.example.org/network@", problem: "is not a digest"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseReference(tc.text)
			if (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
				t.Fatalf("error %v, want %q", err, tc.problem)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || got.Version() != tc.version {
				t.Errorf("version %q, -want +got:\n%s", got.Version(), diff)
			}
			if err == nil && got.String() != tc.text {
				t.Errorf("it is written as %s", got)
			}
		})
	}
}

func TestNewest(t *testing.T) {
	tags := []string{"v1.0.0", "latest", "v1.10.0", "v1.9.1", "v2.0.0-rc.1", "sha256-abc.sig", "2.0.0", "v3"}
	cases := map[string]struct{ inRange, want, problem string }{
		"numbers are compared as numbers":     {">=1.0.0 <2", "v1.10.0", ""},
		"without a v":                         {"2.0.0", "2.0.0", ""},
		"prereleases are left out":            {">=1.0.0, <2.0.0", "v1.10.0", ""},
		"a range that names prereleases":      {">=2.0.0-0 <2.0.0", "v2.0.0-rc.1", ""},
		"a short version is a version":        {">2", "v3", ""},
		"nothing in the range":                {">=4", "", ""},
		"a caret":                             {"^1.9.0", "v1.10.0", ""},
		"no range":                            {"", "", "it has no version"},
		"a range that cannot be read":         {"about 2", "", "is not a range of versions"},
		"a range that is far too long to use": {strings.Repeat(">=1 ", 1000), "", "more than 1024 characters"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Newest(tags, tc.inRange)
			if got != tc.want || (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
