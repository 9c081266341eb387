package server

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

func TestDialectsInstalledByAnotherProgramAreNotServed(t *testing.T) {
	ours := &apiextensionsv1.CustomResourceDefinition{}
	ours.Annotations = map[string]string{v1alpha1.AppliedAnnotation: "x"}
	foreign := &apiextensionsv1.CustomResourceDefinition{}
	cases := map[string]struct {
		configured []Dialect
		installed  map[Dialect]*apiextensionsv1.CustomResourceDefinition
		want       []Dialect
		told       string
	}{
		"All of them in an empty cluster":         {nil, nil, Dialects, ""},
		"All of them after an earlier run":        {nil, map[Dialect]*apiextensionsv1.CustomResourceDefinition{Graph: ours, Composition: ours}, Dialects, ""},
		"Not what another program has installed":  {nil, map[Dialect]*apiextensionsv1.CustomResourceDefinition{Graph: foreign, Composition: ours}, []Dialect{Composition}, "the graph dialect is not served: CustomResourceDefinition resourcegraphdefinitions.kro.run"},
		"Configured ones, whoever installed them": {[]Dialect{Graph}, map[Dialect]*apiextensionsv1.CustomResourceDefinition{Graph: foreign}, []Dialect{Graph}, ""},
		"Only configured ones":                    {[]Dialect{Composition}, nil, []Dialect{Composition}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			served, notes := chooseDialects(tc.configured, func(name string) (*apiextensionsv1.CustomResourceDefinition, bool) {
				for d, c := range tc.installed {
					if d.definitions() == name {
						return c, true
					}
				}
				return nil, false
			})
			if !slices.Equal(served, tc.want) {
				t.Errorf("%v are served", served)
			}
			if told := strings.Join(notes, "\n"); !strings.HasPrefix(told, tc.told) || (told == "") != (tc.told == "") {
				t.Errorf("told is %q", told)
			}
		})
	}
}

func TestEachDialectHasItsDefinitionsInstalled(t *testing.T) {
	for _, d := range Dialects {
		var names []string
		for _, files := range d.kinds() {
			names = append(names, namesIn(t, files)...)
		}
		if !slices.Contains(names, d.definitions()) {
			t.Errorf("%s installs %v, and not %s", d, names, d.definitions())
		}
	}
}

func TestDialectsAreParsed(t *testing.T) {
	if got, err := ParseDialects([]string{"graph", " composition"}); err != nil || !slices.Equal(got, Dialects) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ParseDialects([]string{"graphs"}); err == nil || !strings.Contains(err.Error(), `unknown dialect "graphs"; the dialects are graph and composition`) {
		t.Error(err)
	}
}

// namesIn are the names of the objects in YAML files.
func namesIn(t *testing.T, files fs.FS) (out []string) {
	t.Helper()
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		var o metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(raw, &o); err != nil {
			return err
		}
		out = append(out, o.Name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
