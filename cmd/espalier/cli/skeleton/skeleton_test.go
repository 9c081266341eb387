package skeleton

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

func TestInvalidNames(t *testing.T) {
	good := Provider{Name: "things", Kind: "Note", Group: "things.example.org", Module: "example.org/provider-things", Version: "v0.0.0"}
	cases := map[string]struct {
		change func(*Provider)
		says   string
	}{
		"all is well":                          {func(*Provider) {}, ""},
		"a name of several words":              {func(p *Provider) { p.Name = "my things" }, "the name"},
		"a name that leads elsewhere":          {func(p *Provider) { p.Name = "../things" }, "the name"},
		"no name":                              {func(p *Provider) { p.Name = "" }, "the name"},
		"no kind":                              {func(p *Provider) { p.Kind = "" }, "the kind"},
		"a kind in small letters":              {func(p *Provider) { p.Kind = "bucket" }, "the kind"},
		"a kind that breaks out of its line":   {func(p *Provider) { p.Kind = "A\nB" }, "the kind"},
		"a kind that is a list":                {func(p *Provider) { p.Kind = "BucketList" }, "the kind"},
		"a kind that the program uses":         {func(p *Provider) { p.Kind = "GroupVersion" }, "choose another one"},
		"a group in capitals":                  {func(p *Provider) { p.Group = "Things.example.org" }, "the group"},
		"a group that is no domain":            {func(p *Provider) { p.Group = "things" }, "a domain of yours"},
		"a group of Kubernetes' own":           {func(p *Provider) { p.Group = "things.k8s.io" }, "a domain of yours"},
		"a module with a space":                {func(p *Provider) { p.Module = "example.org/my things" }, "the module"},
		"a module that breaks out of its line": {func(p *Provider) { p.Module = "x\nreplace y => z" }, "the module"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := good
			tc.change(&p)
			files, err := p.Files()
			switch {
			case tc.says == "" && err != nil:
				t.Error(err)
			case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
				t.Errorf("it says %v", err)
			case tc.says != "" && files != nil:
				t.Error("files are given all the same")
			}
		})
	}
}

func TestTemplatesAreFullyRendered(t *testing.T) {
	files, err := Provider{Name: "things", Kind: "AccessPolicy", Group: "g.example.org", Module: "example.org/m", Version: "v0.0.0", Replace: "/src"}.Files()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		".gitignore", "go.mod", "main.go", "accesspolicy.yaml", "api/v1alpha1/accesspolicy_types.go",
		"api/v1alpha1/crds/g.example.org_accesspolicies.yaml", "api/v1alpha1/zz_generated.deepcopy.go",
	} {
		if len(files[path]) == 0 {
			t.Errorf("there is no %s", path)
		}
	}
	for path, text := range files {
		if bytes.Contains(text, []byte("[[")) || strings.HasSuffix(path, ".tmpl") {
			t.Errorf("%s has something left of its template", path)
		}
		if note := regexp.MustCompile(`\b[Nn]otes?\b`).Find(text); note != nil {
			t.Errorf("%s speaks of a %s, whatever the kind is", path, note)
		}
	}
}
