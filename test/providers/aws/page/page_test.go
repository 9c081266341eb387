// Package page runs the commands of docs/aws.md as a reader does, in their order: against the control plane that its
// first command starts, and the test cloud instead of AWS.
package page

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol"

	"github.com/espalier-dev/espalier/cmd/espalier/cli"
	_ "github.com/espalier-dev/espalier/cmd/espalier/withaws"
	"github.com/espalier-dev/espalier/internal/kube/embedded"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/aws/testkit/awscloud"
)

// asProgram is the environment variable with which the test program is the program espalier.
const asProgram = "ESPALIER_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(testkit.Main(m))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const (
	root   = "../../../.."
	page   = root + "/docs/aws.md"
	region = "eu-central-1" // of the page
	// theirs is an identifier in the page, for which a reader puts their own.
	theirs = "vpc-0123456789abcdef0"
	// limit bounds a command.
	limit = 2 * time.Minute
)

// whole are the commands in running text that are run. Other ones there are named without arguments, or need what is not
// here, as the update of schemas needs a package index: of these, the program must know the verb and the flags.
var whole = map[string]bool{
	"kubectl get vpc,subnets.ec2.aws.espalier.dev":                       true,
	"kubectl get aws -A":                                                 true,
	"espalier tree vpc main":                                             true,
	"espalier aws activate AWS::EC2::VPC --name cluster --scope Cluster": true,
	"espalier aws schema":                                                true,
	"espalier aws rbac AWS::S3::Bucket | kubectl apply -f -":             true,
	"espalier aws import AWS::EC2::VPC " + theirs:                        true,
}

// prints is what commands must print, by how they begin.
var prints = map[string]string{
	"espalier aws types 'AWS::EC2::V*'":                             "AWS::EC2::VPC ",
	"espalier aws activate AWS::EC2::VPC AWS::EC2::Subnet":          "2 of 2 kinds served",
	"kubectl explain vpc.spec.forProvider":                          "CidrBlock",
	"kubectl get aws -A":                                            "vpc.ec2.aws.espalier.dev/main",
	"kubectl get vpc,subnets":                                       "subnet.ec2.aws.espalier.dev/private",
	"espalier tree vpc main":                                        "main",
	"espalier aws activate 'AWS::EKS::*' AWS::IAM::Role":            "AWS::EKS::Cluster  Cluster.eks.aws.espalier.dev  Served",
	"espalier aws activations":                                      "AWS::IAM::Role",
	"espalier aws deactivate 'AWS::EKS::*'":                         "3 of 3 kinds served",
	"espalier aws activate AWS::EC2::VPC --name cluster":            "ClusterVPC.ec2.aws.espalier.dev  Served",
	"espalier aws schema":                                           "resource types, taken from AWS on",
	"espalier aws policy --output-dir":                              "policies/policy-1.json",
	"espalier aws rbac AWS::S3::Bucket | kubectl":                   "clusterrole.rbac.authorization.k8s.io/espalier-aws-types-s3-bucket ",
	"espalier aws rbac AWS::S3::Bucket --for tenant":                "espalier-aws-types-tenant-s3-bucket-namespaced created",
	"espalier aws rbac AWS::S3::Bucket --for composer":              "espalier-aws-types-composer-s3-bucket created",
	"espalier aws rbac AWS::S3::Bucket --for viewer":                "espalier-aws-types-viewer-s3-bucket-namespaced created",
	"espalier rbac -f definition.yaml":                              "clusterrole.rbac.authorization.k8s.io/espalier:lines created",
	"espalier aws import AWS::EC2::VPC":                             "crossplane.io/external-name: vpc-",
	"kubectl patch clusterproviderconfigs":                          "patched",
	"kubectl apply -f network.yaml":                                 "subnet.ec2.aws.espalier.dev/prod-a created",
	"espalier aws import AWS::EC2::Subnet --tag env=prod --tree -n": "", // one writes a file, and the other one changes what exists
}

// then are what must be true after a command or manifest, by what that contains.
var then = map[string]string{
	"kind: Subnet":                  "kubectl wait --for=condition=Ready --timeout=110s vpcs.ec2.aws.espalier.dev/main subnets.ec2.aws.espalier.dev/private",
	"kubectl apply -f network.yaml": "kubectl wait -n prod --for=condition=Ready --timeout=110s vpcs.ec2.aws.espalier.dev/prod subnets.ec2.aws.espalier.dev/prod-a",
	"--full | kubectl apply":        "kubectl wait -n prod --for=condition=Synced --timeout=110s vpcs.ec2.aws.espalier.dev/prod subnets.ec2.aws.espalier.dev/prod-a",
	"espalier rbac -f":              "kubectl get clusterrole espalier:lines -o yaml | grep -A3 sqs.aws.espalier.dev | grep -q -- '- queues'",
	"--write-kubeconfig":            "test -s ~/espalier.kubeconfig",
	"> policy.json":                 "grep -q ec2:CreateVpc policy.json",
}

// definition is the reader's definition.yaml. Its kind of SQS is not activated.
const definition = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: lines}
spec:
  schema: {apiVersion: v1alpha1, kind: Line}
  resources:
    - id: queue
      template:
        apiVersion: sqs.aws.espalier.dev/v1alpha1
        kind: Queue
        metadata: {name: line}
        spec: {forProvider: {}}
`

// examples are commands of help texts that the page does not have, with a part of what they print. They are run after the page,
// in their order. A kind is only deactivated when it has no objects.
var examples = [][2]string{
	{"kubectl delete aws --all --all-namespaces --timeout 110s", "deleted"},
	{"espalier aws deactivate AWS::EC2::VPC", "VPC.ec2.aws.espalier.dev  Deactivated"},
	{"espalier aws activate 'AWS::EKS::*' --name eks --scope Namespaced,Cluster", "ClusterNodegroup.eks.aws.espalier.dev  Served"},
	{"espalier aws activations -o yaml", "  name: eks\n"},
	{"espalier aws deactivate 'AWS::EKS::*' --name eks", "0 of 0 kinds served"},
	{"espalier aws activate --on-demand 'AWS::EC2::*','AWS::IAM::*'", "kinds served"},
}

// texts finds fenced blocks, and code in running text.
var texts = regexp.MustCompile("(?s)```([a-z]*)\n(.*?)```|`([^`]+)`")

func TestTheCommandsOfThePage(t *testing.T) {
	testkit.NeedsServer(t)
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(t)
	for _, found := range texts.FindAllStringSubmatch(string(raw), -1) {
		switch language, block, span := found[1], found[2], strings.Join(strings.Fields(found[3]), " "); {
		case language == "sh":
			for line := range strings.Lines(block) {
				r.run(t, strings.TrimSpace(line))
			}
		case language == "yaml" && strings.HasPrefix(block, "# values.yaml"):
			r.render(t, block)
		case language == "yaml":
			r.apply(t, block)
		case whole[span]:
			r.run(t, span)
			delete(r.left, span)
		default:
			r.check(t, span)
		}
	}
	for span := range r.left {
		t.Errorf("the page does not have %s any more", span)
	}
	for prefix := range r.expected {
		t.Errorf("the page does not have a command that begins with %s any more", prefix)
	}
	for _, example := range examples {
		if out := r.shell(t, example[0], ""); !strings.Contains(out, example[1]) {
			t.Errorf("%s does not print %q:\n%s", example[0], example[1], out)
		}
	}
}

// reader follows the page on a machine of their own.
type reader struct {
	home, vpc string
	env       []string
	// left and expected are what the page has not had yet.
	left     map[string]bool
	expected map[string]string
}

func newReader(t *testing.T) *reader {
	t.Helper()
	plane, err := embedded.Find()
	if err != nil {
		t.Fatal(err)
	}
	cloud := awscloud.Start(t)
	r := &reader{home: t.TempDir(), vpc: createNetwork(t, cloud), left: map[string]bool{}, expected: map[string]string{}}
	for span := range whole {
		r.left[span] = true
	}
	for prefix, want := range prints {
		r.expected[prefix] = want
	}
	programs := filepath.Join(r.home, "bin")
	r.env = append(os.Environ(), "HOME="+r.home, "PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"), "ESPALIER_CONTROLPLANE="+plane,
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_SESSION_TOKEN=", "AWS_PROFILE=", "AWS_REGION="+region, "AWS_ENDPOINT_URL="+cloud.Endpoint)
	if err := os.WriteFile(filepath.Join(r.home, "definition.yaml"), []byte(definition), 0o644); err != nil {
		t.Fatal(err)
	}
	install(t, programs)
	return r
}

// install makes the programs of the page available in a folder.
func install(t *testing.T, programs string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(programs, 0o755); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\n" + asProgram + "=1 exec '" + self + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(programs, "espalier"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(testkit.Kubectl(t), filepath.Join(programs, "kubectl")); err != nil {
		t.Fatal(err)
	}
}

// createNetwork creates what the page imports, as others have created it, and returns the VPC.
func createNetwork(t *testing.T, cloud *awscloud.Cloud) (vpc string) {
	t.Helper()
	client := cloudcontrol.NewFromConfig(cloud.Config(), func(o *cloudcontrol.Options) { o.Region = region })
	create := func(typeName, state string) string {
		out, err := client.CreateResource(t.Context(), &cloudcontrol.CreateResourceInput{TypeName: &typeName, DesiredState: &state})
		if err != nil {
			t.Fatal(err)
		}
		waiter := cloudcontrol.NewResourceRequestSuccessWaiter(client, func(o *cloudcontrol.ResourceRequestSuccessWaiterOptions) {
			o.MinDelay, o.MaxDelay = 10*time.Millisecond, 100*time.Millisecond
		})
		done, err := waiter.WaitForOutput(t.Context(), &cloudcontrol.GetResourceRequestStatusInput{RequestToken: out.ProgressEvent.RequestToken}, limit)
		if err != nil {
			t.Fatal(err)
		}
		return awssdk.ToString(done.ProgressEvent.Identifier)
	}
	vpc = create("AWS::EC2::VPC", `{"CidrBlock": "10.9.0.0/16", "Tags": [{"Key": "Name", "Value": "prod"}]}`)
	create("AWS::EC2::Subnet", `{"CidrBlock": "10.9.1.0/24", "VpcId": "`+vpc+`", "Tags": [{"Key": "Name", "Value": "prod-a"}, {"Key": "env", "Value": "prod"}]}`)
	return vpc
}

// run runs a command of the page.
func (r *reader) run(t *testing.T, line string) {
	t.Helper()
	switch {
	case strings.HasPrefix(line, "export "):
		name, value, _ := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		r.env = append(r.env, name+"="+strings.Replace(value, "~", r.home, 1))
		return
	case strings.HasPrefix(line, "espalier up"):
		file := filepath.Join(r.home, "config.yaml")
		text := "apiVersion: config.espalier.dev/v1alpha1\nkind: ControllerConfiguration\naws: {localEndpoints: true}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r.start(t, line+" --config="+file)
	default:
		out := r.shell(t, strings.ReplaceAll(line, theirs, r.vpc), "")
		for prefix, want := range prints {
			if !strings.HasPrefix(line, prefix) {
				continue
			}
			delete(r.expected, prefix)
			if !strings.Contains(out, want) {
				t.Errorf("%s: %s does not print %q:\n%s", page, line, want, out)
			}
		}
	}
	r.checkAfter(t, line)
}

// apply applies a manifest of the page.
func (r *reader) apply(t *testing.T, manifest string) {
	t.Helper()
	r.shell(t, "kubectl apply -f -", manifest)
	r.checkAfter(t, manifest)
}

func (r *reader) checkAfter(t *testing.T, text string) {
	t.Helper()
	for contained, command := range then {
		if strings.Contains(text, contained) {
			r.shell(t, command, "")
		}
	}
}

// render renders the chart with values of the page: there is no cluster for its pods.
func (r *reader) render(t *testing.T, values string) {
	t.Helper()
	out := r.shell(t, "espalier install --image registry.example.com/espalier:0.1.0 --values /dev/stdin", values)
	for _, want := range []string{"eks.amazonaws.com/role-arn: arn:aws:iam::123456789012:role/espalier", "ec2.aws.espalier.dev"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s: the chart with the values of the page does not have %s", page, want)
		}
	}
}

// check checks that the verb and the flags of a command that the page names exist.
func (r *reader) check(t *testing.T, span string) {
	t.Helper()
	words := strings.Fields(span)
	switch {
	case len(words) < 2:
	case words[0] == "espalier":
		r.shell(t, span+" --help", "")
	case words[0] == "make":
		makefile, err := os.ReadFile(root + "/Makefile")
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`(?m)^([^:#\t]* )?` + regexp.QuoteMeta(words[1]) + `( [^:]*)?:`).Match(makefile) {
			t.Errorf("%s: there is no target of %s", page, span)
		}
	}
}

// shell runs a line, and returns what it prints.
func (r *reader) shell(t *testing.T, line, stdin string) string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	cmd := r.command(ctx, line)
	cmd.Stdin = strings.NewReader(stdin)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %s: %v\n%s%s", page, line, err, out, errs.String())
	}
	return string(out)
}

func (r *reader) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", line)
	cmd.Dir, cmd.Env = r.home, r.env
	return cmd
}

// start starts the control plane, which runs until the end of the test.
func (r *reader) start(t *testing.T, line string) {
	t.Helper()
	cmd := r.command(context.WithoutCancel(t.Context()), "exec "+line)
	var errs strings.Builder
	cmd.Stderr = &errs
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("%s: %v\n%s", line, err, errs.String())
		}
	})
	ready := make(chan bool, 1)
	go func() {
		defer close(ready)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if lines.Text() == "ready" {
				ready <- true
			}
		}
	}()
	select {
	case started := <-ready:
		if !started {
			t.Fatalf("%s: %s ended before it was ready", page, line)
		}
	case <-time.After(limit):
		t.Fatalf("%s: %s is not ready", page, line)
	}
}
