package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const exampleFiles = "../../../examples/"

func TestGraph(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(broken, []byte(brokenDefinition), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		arguments []string
		code      int
		out, says []string
	}{
		"a definition among others": {
			[]string{"-f", exampleFiles + "eks-with-vpc/1-vpc.yaml", "-f", exampleFiles + "eks-with-vpc/2-ekscluster.yaml", "vpc"}, exitDone,
			[]string{`n0["Vpc<br/>the instance"]`, `n1["network<br/>Network`, `("status<br/>of the instance")`, "n1 --> n2"}, nil,
		},
		"for Graphviz": {[]string{"-f", exampleFiles + "eks-with-vpc/1-vpc.yaml", "-o", "dot"}, exitDone, []string{`"network" -> "privateSubnet1";`}, nil},
		"a picture":    {[]string{"-f", exampleFiles + "eks-with-vpc/1-vpc.yaml", "-o", "svg"}, exitDone, []string{"<title>Vpc.kro.run/v1alpha1</title>", ">privateSubnet2</text>"}, nil},
		"a composition, with what passes through its composite": {
			[]string{"-f", exampleFiles + "store"}, exitDone,
			[]string{`n1("render<br/>function-patch-and-transform")`, `n2 -->|"status.url"| n3`}, nil,
		},
		"several definitions":                {[]string{"-f", exampleFiles + "eks-with-vpc"}, exitUsage, nil, []string{"name one of them: ekscluster, eksclusterwithvpc, vpc"}},
		"several definitions of the name":    {[]string{"-f", exampleFiles + "eks-with-vpc", "vpc"}, exitUsage, nil, []string{"eks-with-vpc/1-vpc.yaml, ", "eks-with-vpc/aws/1-vpc.yaml"}},
		"no definition of the name":          {[]string{"-f", exampleFiles + "store", "shop"}, exitFailed, nil, []string{"no definition or composition named shop in the files"}},
		"a definition that does not compile": {[]string{"-f", broken}, exitFailed, nil, []string{"web.yaml:12:", `did you mean "size"?`}},
		"no files":                           {nil, exitUsage, nil, []string{"-f FILE"}},
		"another format":                     {[]string{"-f", exampleFiles + "store", "-o", "png"}, exitUsage, nil, []string{"mermaid, dot or svg"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			code, out, errs := call(t.Context(), append([]string{"graph"}, tc.arguments...)...)
			if code != tc.code {
				t.Errorf("exit code %d: %s", code, errs)
			}
			for _, want := range tc.out {
				if !strings.Contains(out, want) {
					t.Errorf("it does not print %q:\n%s", want, out)
				}
			}
			for _, want := range tc.says {
				if !strings.Contains(errs, want) {
					t.Errorf("it does not say %q: %s", want, errs)
				}
			}
		})
	}
}
