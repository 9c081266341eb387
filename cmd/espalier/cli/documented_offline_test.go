package cli

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// outcome is what a documented command does that needs no cluster.
type outcome struct {
	code int
	// says are parts of what it prints, and writes are files that it writes, each with a part of it.
	says   []string
	writes map[string]string
	// input is its standard input.
	input string
	// files is the folder below testdata/documented with files that it reads besides those of all commands.
	files string
	// python says that it runs pip.
	python bool
}

const documentedFiles = "testdata/documented"

// lspSession is what an editor sends that starts and ends at once.
const lspSession = "Content-Length: 75\r\n\r\n" + `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}` +
	"Content-Length: 44\r\n\r\n" + `{"jsonrpc":"2.0","id":2,"method":"shutdown"}` + "Content-Length: 33\r\n\r\n" + `{"jsonrpc":"2.0","method":"exit"}`

// outcomes are the documented commands that need no cluster. Where a page shows what one prints, that is compared as well.
var outcomes = map[string]outcome{
	"aws policy AWS::EC2::VPC AWS::EC2::Subnet": {says: []string{`"ec2:CreateVpc"`, `"ec2:CreateSubnet"`}},
	"aws rbac 'AWS::EC2::*' AWS::EKS::Cluster":  {says: []string{"name: espalier-aws-types-ec2-all-eks-cluster\n", "- ec2.aws.espalier.dev\n", "- eks.aws.espalier.dev\n"}},
	"aws rbac AWS::S3::Bucket --for composer":   {says: []string{"name: espalier-aws-types-composer-s3-bucket\n", "- buckets\n"}},
	"aws rbac AWS::S3::Bucket --for tenant":     {says: []string{"name: espalier-aws-types-tenant-s3-bucket-namespaced\n", "rbac.espalier.dev/aggregate-to-tenant"}},
	"aws rbac AWS::S3::Bucket --for viewer":     {says: []string{"name: espalier-aws-types-viewer-s3-bucket-namespaced\n", "- list\n"}},
	"aws schema update --output types.zip":      {python: true, says: []string{"added AWS::Test::Thing\n", "wrote types.zip: ", "taken from AWS on 2030-01-02: cfn-lint 1.58.0"}, writes: map[string]string{"types.zip": "PK"}},
	"aws types 'AWS::EC2::*'":                   {says: []string{"AWS::EC2::VPC ", "AWS::EC2::Subnet "}},
	"aws types 'AWS::EC2::V*'":                  {says: []string{"AWS::EC2::VPC ", "AWS::EC2::VPCEndpoint "}},
	"aws types --region eu-central-1 -o json":   {says: []string{`"AWS::EC2::VPC"`, `"AWS::S3::Bucket"`}},
	"graph -f examples/eks-with-vpc/3-eksclusterwithvpc.yaml --kinds examples/eks-with-vpc/2-ekscluster.yaml --kinds examples/eks-with-vpc/1-vpc.yaml": {
		says: []string{`n2["cluster<br/>EksCluster"]`},
	},
	"graph -f platform/ webapp -o svg":                                          {says: []string{"<title>WebApp.kro.run/v1alpha1</title>", ">region"}},
	"graph -f webapp.yaml":                                                      {says: []string{"flowchart LR\n", `n3["cache<br/>Cache<br/>the kind is not known<br/>if schema.spec.cached"]`, "n1 --> n2\n"}},
	"graph -f webapp.yaml --kinds crds/ -o dot":                                 {says: []string{`"cache" [label="cache\nCache\nif schema.spec.cached"];`, `"service" -> "cache";`}},
	"health --flux -f platform/":                                                {says: []string{"healthCheckExprs:\n", "kind: WebApp\n", "kind: Store\n", "c.type == 'Stalled'"}},
	"install --crds-only":                                                       {says: []string{"kind: CustomResourceDefinition\n", "name: resourcegraphdefinitions.kro.run\n", "argocd.argoproj.io/sync-options: Prune=false,Delete=false\n"}},
	"install --image registry.example.com/espalier:0.1.0":                       {says: []string{"kind: Namespace\n", "image: registry.example.com/espalier:0.1.0\n", "kind: Deployment\n"}},
	"install --image registry.example.com/espalier:0.1.0 --set ui.enabled=true": {says: []string{"--ui-bind-address=:"}},
	"install -f values.yaml --set replicas=3":                                   {says: []string{"replicas: 3\n", "--workers=8"}},
	"install -f values.yaml --version 0.2.0":                                    {says: []string{"replicas: 2\n", "--workers=8", ":0.2.0"}},
	"lsp":                                                                       {input: lspSession, says: []string{`"completionProvider":`, `"id":2`}},
	"lsp --kinds crds/":                                                         {input: lspSession, says: []string{`"completionProvider":`, `"id":2`}},
	"lsp --kinds ~/crds":                                                        {input: lspSession, says: []string{`"completionProvider":`, `"id":2`}},
	"rbac --controllers --serviceaccount espalier-system:espalier-controllers": {says: []string{"kind: ClusterRoleBinding\n", "name: espalier-controllers\n  namespace: espalier-system\n"}},
	"render -f composition/ -f store.yaml --function function-mine=./mine":     {says: []string{"# Store default/photos\n", "function-mine | started\n", "region: us\n", "engine: small\n"}},
	"render -f examples/tested/webapp.yaml -f examples/tested/shop.yaml":       {says: []string{"# WebApp default/shop\n", "# ingress: left out: includeWhen is false: schema.spec.public\n", "- image: nginx\n"}},
	"render -f platform/ -f shop.yaml -f deployment-ready.yaml -o json":        {says: []string{`"available": 1`, `"kind": "Deployment"`}},
	"render -f operation.yaml -f settings.yaml": {
		says: []string{"# Operation count\n", "count: \"1\"\n", "# Operation nightly-10800\n", "name: audit-settings\n", "reason: PipelineSuccess\n"},
	},
	"render -f webapp.yaml -f shop.yaml": {says: []string{"# WebApp default/shop\n", "# cache: left out", "kind: Deployment\n", "kind: Service\n"}},
	"schema -f platform/ --output-dir schemas": {
		says:   []string{"schemas/kro.run/webapp_v1alpha1.json\n"},
		writes: map[string]string{"schemas/kro.run/webapp_v1alpha1.json": `"regions"`, "schemas/platform.example.org/store_v1alpha1.json": `"region"`, "schemas/kro.run/resourcegraphdefinition_v1alpha1.json": `"resources"`},
	},
	"schema rgd":                                       {says: []string{`"$schema": "http://json-schema.org/`, `"ResourceGraphDefinition"`, `"readyWhen"`}},
	"schema webapp -f definition.yaml":                 {says: []string{`"WebApp"`, `"colour"`}},
	"test . --junit report.xml":                        {says: []string{"ok    platform/public.test.yaml", "ok    examples/tested/public.test.yaml"}, writes: map[string]string{"report.xml": `tests="5" failures="0"`}},
	"test --fuzz 100 -f platform/webapp.yaml":          {says: []string{"no problems in 100 instances with seed 1"}},
	"test --fuzz 50 -f ratio.yaml":                     {code: exitFailed, says: []string{"division by zero"}},
	"test examples/graphs":                             {says: []string{"ok    examples/graphs/isolation.test.yaml"}},
	"test examples/tested":                             {says: []string{"coverage: WebApp: 8 of 8 branches (100%)\n"}},
	"test platform/":                                   {says: []string{"ok    platform/private.test.yaml", "ok    platform/public.test.yaml"}},
	"test platform/ --update":                          {says: []string{"ok    platform/public.test.yaml"}, writes: map[string]string{"platform/public.expected.yaml": "kind: WebApp"}},
	"validate -f platform/":                            {files: "problems", code: exitFailed, says: []string{"2 errors and 1 warning in 2 files"}},
	"validate -f webapp.yaml --kinds crds/ -o json":    {says: []string{"[]\n", "0 errors and 0 warnings in 1 file"}},
	"xpkg build -f platform-package/ -o platform.xpkg": {says: []string{"platform.xpkg\nsha256:"}, writes: map[string]string{"platform.xpkg": "manifest.json"}},
	"version": {says: []string{"espalier " + Version() + " (go"}},
	"provider new things --kind Bucket --group things.example.org --module example.org/provider-things": {
		says:   []string{"provider-things/api/v1alpha1/bucket_types.go\n", "go test ./..."},
		writes: map[string]string{"provider-things/go.mod": "module example.org/provider-things\n", "provider-things/api/v1alpha1/bucket_types.go": "type Bucket struct"},
	},
	"aws schema update --from cfn_lint-1.58.0-py3-none-any.whl --output types.zip": {
		says: []string{"added AWS::Test::Thing\n", "removed AWS::EC2::VPC\n", "wrote types.zip: ", "taken from AWS on 2030-01-02: cfn-lint 1.58.0"}, writes: map[string]string{"types.zip": "PK"},
	},
}

// TestDocumentedCommandsWithoutACluster runs each documented command that needs no cluster, in a folder with the files that it names.
func TestDocumentedCommandsWithoutACluster(t *testing.T) {
	t.Parallel()
	shown := map[string][]string{}
	for _, d := range documentedCommands(t) {
		if d.output != "" {
			shown[d.text] = append(shown[d.text], d.output)
		}
	}
	for text, want := range outcomes {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			home := newHome(t, want.files)
			if want.python && exec.CommandContext(t.Context(), "python3", "-m", "pip", "--version").Run() != nil {
				t.Skip("the command runs pip, which is not installed")
			}
			code, out := home.run(t, text, want.input)
			if code != want.code {
				t.Errorf("exit code %d, want %d", code, want.code)
			}
			for _, part := range want.says {
				if !strings.Contains(out, part) {
					t.Errorf("it does not print %q", part)
				}
			}
			for file, part := range want.writes {
				if raw, err := os.ReadFile(filepath.Join(string(home), file)); err != nil || !strings.Contains(string(raw), part) {
					t.Errorf("%s does not have %q: %v", file, part, err)
				}
			}
			for _, output := range shown[text] {
				if !asShown(output).MatchString(out) {
					t.Errorf("a page shows that it prints\n%s", output)
				}
			}
			if t.Failed() {
				t.Logf("it printed\n%s", out)
			}
		})
	}
}

// asShown matches what a page shows. A line with three points stands for any lines.
func asShown(output string) *regexp.Regexp {
	var lines []string
	for line := range strings.Lines(output) {
		if text := strings.TrimSpace(line); text == "..." || text == "…" {
			lines = append(lines, "(?:.*\n)*")
		} else {
			lines = append(lines, regexp.QuoteMeta(line))
		}
	}
	return regexp.MustCompile("^" + strings.Join(lines, "") + "$")
}

// home is a folder of a reader, with the program and the files that the pages and help texts name.
type home string

func newHome(t *testing.T, more string) home {
	t.Helper()
	h := home(t.TempDir())
	for _, folder := range []string{"examples", "providers/sandbox/v1alpha1/crds"} {
		h.copy(t, filepath.Join("../../..", folder), folder)
	}
	h.copy(t, testedExample, "platform")
	h.copy(t, documentedFiles+"/files", ".")
	if more != "" {
		if err := os.RemoveAll(filepath.Join(string(h), "platform")); err != nil {
			t.Fatal(err)
		}
		h.copy(t, filepath.Join(documentedFiles, more), ".")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(string(h), "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bin/" + asProgram, asFunction} {
		if err := os.Symlink(program, filepath.Join(string(h), name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(string(h), "cfn_lint-1.58.0-py3-none-any.whl"), wheel(t), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h home) copy(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(filepath.Join(string(h), to), os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// command is a command in the folder, with its words as a shell gives them.
func (h home) command(ctx context.Context, text string, env ...string) *exec.Cmd {
	args := shellWords(text)
	for i, arg := range args {
		if below, ok := strings.CutPrefix(arg, "~/"); ok {
			args[i] = filepath.Join(string(h), below)
		}
	}
	cmd := exec.CommandContext(ctx, filepath.Join(string(h), "bin", asProgram), args...)
	cmd.Dir = string(h)
	cmd.Env = append(os.Environ(), "HOME="+string(h), "XDG_DATA_HOME=", "XDG_RUNTIME_DIR="+string(h), "KUBECONFIG="+filepath.Join(string(h), "none"), "KUBERNETES_SERVICE_HOST=",
		"PIP_NO_INDEX=1", "PIP_FIND_LINKS="+string(h))
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// run runs a command to its end, and returns the exit code and what it printed.
func (h home) run(t *testing.T, text, input string, env ...string) (int, string) {
	t.Helper()
	cmd := h.command(t.Context(), text, env...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if ended := new(exec.ExitError); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// wheel is a package of cfn-lint with one type.
func wheel(t *testing.T) []byte {
	t.Helper()
	const schemas, info = "cfnlint/data/schemas/", "cfn_lint-1.58.0.dist-info/"
	files := map[string]string{
		schemas + "version.json":             `{"schema_date": "2030-01-02"}`,
		schemas + "providers/us-east-1.json": `{"AWS::Test::Thing": "1"}`,
		schemas + "resources/1.json": `{"typeName": "AWS::Test::Thing", "primaryIdentifier": ["/properties/Name"], "properties": {"Name": {"type": "string"}}, ` +
			`"handlers": {"create": {"permissions": []}, "read": {"permissions": []}, "delete": {"permissions": []}}}`,
		info + "METADATA": "Metadata-Version: 2.1\nName: cfn-lint\nVersion: 1.58.0\n",
		info + "WHEEL":    "Wheel-Version: 1.0\nGenerator: none\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "RECORD":   "",
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file, err := w.Create(name)
		if err == nil {
			_, err = file.Write([]byte(files[name]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
