package skeleton

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

func TestInvalidNamesAreRejected(t *testing.T) {
	good := Provider{Name: "things", Kind: "Note", Group: "things.example.org", Module: "example.org/provider-things", Version: "v0.0.0"}
	cases := map[string]struct {
		change func(*Provider)
		want   string
	}{
		"valid names":                      {func(*Provider) {}, ""},
		"a name of several words":          {func(p *Provider) { p.Name = "my things" }, "the name"},
		"a path as the name":               {func(p *Provider) { p.Name = "../things" }, "the name"},
		"no name":                          {func(p *Provider) { p.Name = "" }, "the name"},
		"no kind":                          {func(p *Provider) { p.Kind = "" }, "the kind"},
		"a kind in lower case":             {func(p *Provider) { p.Kind = "bucket" }, "the kind"},
		"a kind with a newline":            {func(p *Provider) { p.Kind = "A\nB" }, "the kind"},
		"a kind that ends with List":       {func(p *Provider) { p.Kind = "BucketList" }, "the kind"},
		"a kind that the package declares": {func(p *Provider) { p.Kind = "GroupVersion" }, "choose another one"},
		"a group with capitals":            {func(p *Provider) { p.Group = "Things.example.org" }, "the group"},
		"a group without a domain":         {func(p *Provider) { p.Group = "things" }, "a domain of yours"},
		"a group of Kubernetes":            {func(p *Provider) { p.Group = "things.k8s.io" }, "a domain of yours"},
		"a module with a space":            {func(p *Provider) { p.Module = "example.org/my things" }, "the module"},
		"a module with a newline":          {func(p *Provider) { p.Module = "x\nreplace y => z" }, "the module"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := good
			tc.change(&p)
			files, err := p.Files()
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("want an error with %q, got %v", tc.want, err)
			case tc.want != "" && files != nil:
				t.Error("want no files with an error")
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
			t.Errorf("%s is missing", path)
		}
	}
	for path, text := range files {
		if bytes.Contains(text, []byte("[[")) || strings.HasSuffix(path, ".tmpl") {
			t.Errorf("%s contains template syntax", path)
		}
		if note := regexp.MustCompile(`\b[Nn]otes?\b`).Find(text); note != nil {
			t.Errorf("%s contains %s, which is not the kind", path, note)
		}
	}
}
