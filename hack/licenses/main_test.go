package main

import "testing"

func TestProblem(t *testing.T) {
	cases := map[string]struct {
		module string
		names  []string
		want   string
	}{
		"an allowed license":        {"example.org/a", []string{"MIT"}, ""},
		"two of them":               {"example.org/a", []string{"MIT", "Apache-2.0"}, ""},
		"one of two is not allowed": {"example.org/a", []string{"MIT", "GPL-3.0"}, "the license is GPL-3.0"},
		"a text that nobody knows":  {"example.org/a", nil, "the license is not known"},
		"an exception":              {"github.com/cyphar/filepath-securejoin", []string{"MPL-2.0"}, ""},
		"the exception of another":  {"example.org/a", []string{"MPL-2.0"}, "the license is MPL-2.0"},
		"more than the exception":   {"github.com/cyphar/filepath-securejoin", []string{"AGPL-3.0"}, "the license is AGPL-3.0"},
	}
	for name, tc := range cases {
		if got := problem(tc.module, tc.names); got != tc.want {
			t.Errorf("%s: want %q, got %q", name, tc.want, got)
		}
	}
}

func TestLicenseFiles(t *testing.T) {
	for name, want := range map[string]bool{
		"LICENSE": true, "LICENCE.txt": true, "LICENSE-MIT": true, "COPYING": true, "license.md": true, "UNLICENSE": true,
		"NOTICE": false, "licenses": false, "README.md": false, "relicense.go": false,
	} {
		if got := licenseFile.MatchString(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
