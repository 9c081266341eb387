package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/examples"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// sandboxDemo is the demo in a simulated cloud of this process.
type sandboxDemo struct{ up *upFlags }

func (s *sandboxDemo) start(_ context.Context, _ *demo, up *upFlags) ([]string, []*unstructured.Unstructured, error) {
	s.up = up
	return []string{"--sandbox"}, nil, nil
}

func (*sandboxDemo) folder() string { return "eks-with-vpc" }

func (*sandboxDemo) network() (schema.GroupKind, string) {
	return schema.GroupKind{Group: "sandbox.espalier.dev", Kind: "Network"}, "network"
}

// scale scales the cluster, which the cloud may do, requests a reconcile of it, and waits until the top's status says so.
func (s *sandboxDemo) scale(ctx context.Context, d *demo) (string, error) {
	admin := s.up.cloud.Admin()
	for _, r := range admin.Resources() {
		if r.Type != cloud.TypeCluster {
			continue
		}
		r.Properties.Nodes = scaledTo
		if err := admin.Change(r.Key, r.Properties); err != nil {
			return "", err
		}
	}
	if err := d.requestReconcile(ctx, schema.GroupKind{Group: "sandbox.espalier.dev", Kind: "Cluster"}); err != nil {
		return "", err
	}
	begun := time.Now()
	var took time.Duration
	d.printLine("$ kubectl get %s %s --watch --no-headers \\\n    -o custom-columns=NODES:.status.nodes", demoKind, demoName)
	err := d.watch(ctx, io.Discard, demoKind, demoName, func(w observe.ClusterState) bool {
		if w.Root == nil {
			return false
		}
		took = time.Since(begun)
		nodes, _, _ := unstructured.NestedInt64(w.Root.Object, "status", "nodes")
		d.printLine("%d", nodes)
		return nodes == scaledTo
	})
	return fmt.Sprintf("in the top's status after %d ms", took.Milliseconds()), err
}

// awsDemo is the demo in a test cloud with AWS's APIs, which is a program of its own.
type awsDemo struct{ program, endpoint string }

const (
	testCloudProgram = "aws-testcloud"
	// demoRequests is how long the test cloud takes for a request: long enough to watch the tree.
	demoRequests = 800 * time.Millisecond
)

func (a *awsDemo) start(ctx context.Context, d *demo, _ *upFlags) ([]string, []*unstructured.Unstructured, error) {
	if err := a.startCloud(ctx, d); err != nil {
		return nil, nil, err
	}
	objects, err := readObjects(examples.EKSWithVPC, a.folder()+"/0-*.yaml")
	secret := map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "aws", "namespace": metav1.NamespaceDefault},
		"stringData": map[string]any{"accessKeyId": "test", "secretAccessKey": "test"},
	}
	config := map[string]any{
		"apiVersion": "aws.espalier.dev/v1alpha1", "kind": "ClusterProviderConfig", "metadata": map[string]any{"name": "default"},
		"spec": map[string]any{
			"region": "us-east-1", "endpoint": map[string]any{"url": a.endpoint},
			"credentials": map[string]any{"source": "Secret", "secretRef": map[string]any{"name": "aws", "namespace": metav1.NamespaceDefault}},
		},
	}
	file := filepath.Join(d.dir, "config.yaml")
	text := "apiVersion: " + server.ConfigurationAPIVersion + "\nkind: " + server.ConfigurationKind + "\naws: {localEndpoints: true}\n"
	err = errors.Join(err, os.WriteFile(file, []byte(text), 0o600))
	return []string{"--aws", "--config=" + file}, append([]*unstructured.Unstructured{{Object: secret}, {Object: config}}, objects...), err
}

// startCloud starts the test cloud until the end of the demo. It keeps its data in the directory of the demo, and ends when its
// standard input is closed, also if the demo is killed.
func (a *awsDemo) startCloud(ctx context.Context, d *demo) error {
	program := a.program
	if program == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		program = filepath.Join(filepath.Dir(self), testCloudProgram)
	}
	if _, err := os.Stat(program); err != nil {
		return fmt.Errorf("%s is not beside this program: 'make demo CLOUD=aws' in a checkout of Espalier builds it", testCloudProgram)
	}
	process := exec.Command(program, "-listen=127.0.0.1:0", "-stdin", "-takes="+demoRequests.String())
	process.Env, process.Stderr = append(os.Environ(), "TMPDIR="+d.dir), d.log
	stdin, err := process.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return fmt.Errorf("start the test cloud: %w", err)
	}
	first := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		first <- strings.TrimSpace(line)
	}()
	d.addCleanup(func() {
		_ = stdin.Close()
		kill := time.AfterFunc(stopLimit, func() { _ = process.Process.Kill() })
		_ = process.Wait()
		kill.Stop()
	})
	select {
	case line := <-first:
		endpoint, ok := strings.CutPrefix(line, "ready ")
		if !ok {
			return fmt.Errorf("the test cloud %s did not start; --log FILE has its output", program)
		}
		a.endpoint = endpoint
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (*awsDemo) folder() string { return "eks-with-vpc/aws" }

func (*awsDemo) network() (schema.GroupKind, string) {
	return schema.GroupKind{Group: "ec2.aws.espalier.dev", Kind: "VPC"}, "vpcs.ec2.aws.espalier.dev"
}

// scale scales the node group as another client of AWS, and requests a reconcile of it, which corrects that: the definition
// sets the number of nodes.
func (a *awsDemo) scale(ctx context.Context, d *demo) (string, error) {
	before, err := a.nodes(ctx)
	if err != nil {
		return "", err
	}
	const kind, id = "AWS::EKS::Nodegroup", demoName + "/" + demoName
	patch := fmt.Sprintf(`[{"op":"replace","path":"/ScalingConfig/DesiredSize","value":%d}]`, scaledTo)
	d.printLine("$ aws cloudcontrol update-resource --type-name %s --identifier %s \\\n    --patch-document '%s'", kind, id, patch)
	change, err := json.Marshal(map[string]string{"TypeName": kind, "Identifier": id, "PatchDocument": patch})
	if err != nil {
		return "", err
	}
	if _, err := a.call(ctx, "cloudcontrolapi", "/", change); err != nil {
		return "", err
	}
	if err := a.awaitNodes(ctx, d, scaledTo); err != nil {
		return "", err
	}
	begun := time.Now()
	if err := d.requestReconcile(ctx, schema.GroupKind{Group: "eks.aws.espalier.dev", Kind: "Nodegroup"}); err != nil {
		return "", err
	}
	err = a.awaitNodes(ctx, d, before)
	return fmt.Sprintf("%d nodes again in AWS after %.1f s", before, time.Since(begun).Seconds()), err
}

// awaitNodes waits until the node group is to have a number of nodes.
func (a *awsDemo) awaitNodes(ctx context.Context, d *demo, wanted int) error {
	for {
		nodes, err := a.nodes(ctx)
		switch {
		case err != nil:
			return err
		case nodes == wanted:
			d.printLine("in EKS: desiredSize=%d", nodes)
			return nil
		case !pause(ctx, 20*time.Millisecond):
			return context.Cause(ctx)
		}
	}
}

// nodes returns the number of nodes that the example's node group is to have, as EKS says.
func (a *awsDemo) nodes(ctx context.Context) (int, error) {
	raw, err := a.call(ctx, "eks", "/clusters/"+demoName+"/node-groups/"+demoName, nil)
	if err != nil {
		return 0, err
	}
	var answer struct {
		Nodegroup struct{ ScalingConfig struct{ DesiredSize int } }
	}
	return answer.Nodegroup.ScalingConfig.DesiredSize, json.Unmarshal(raw, &answer)
}

// call reads from the API of a service, or with a body requests a change of a resource. The test cloud does not check signatures.
func (a *awsDemo) call(ctx context.Context, service, path string, body []byte) ([]byte, error) {
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, a.endpoint+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/"+service+"/aws4_request, SignedHeaders=host, Signature=none")
	if body != nil {
		request.Header.Set("Content-Type", "application/x-amz-json-1.0")
		request.Header.Set("X-Amz-Target", "CloudApiService.UpdateResource")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && response.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s of %s: %s: %s", path, service, response.Status, raw)
	}
	return raw, err
}
