package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/examples"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/providers/aws"
	"github.com/espalier-dev/espalier/providers/aws/account"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// awsDemo is the demo in a test cloud with AWS's APIs, which is a program of its own.
type awsDemo struct {
	program string
	cloud   awsAPIs
}

const (
	testCloudProgram = "aws-testcloud"
	// demoRequests is how long the test cloud takes for a request, so that the tree can be watched.
	demoRequests = 800 * time.Millisecond
)

func (d *awsDemo) start(ctx context.Context, s *demoStory) (managed.Provider, string, error) {
	endpoint, err := d.startCloud(ctx, s)
	if err != nil {
		return managed.Provider{}, "", err
	}
	d.cloud = newAWSAPIs(endpoint)
	// The test cloud shows changes at once.
	options := aws.Options{Account: account.Options{LocalEndpoints: true}, Settle: time.Millisecond}
	return aws.Provider(options), "a simulated AWS", nil
}

// startCloud starts the test cloud, and returns its URL.
func (d *awsDemo) startCloud(ctx context.Context, s *demoStory) (string, error) {
	program, err := d.findProgram()
	if err != nil {
		return "", err
	}
	cloud := exec.Command(program, "-listen=127.0.0.1:0", "-stdin", "-takes="+demoRequests.String())
	// It keeps its data in the directory that the demo removes.
	cloud.Env = append(os.Environ(), "TMPDIR="+s.dir)
	var failure bytes.Buffer
	cloud.Stderr = io.MultiWriter(s.log, &failure)
	// It ends when its standard input is closed, also if the demo is killed.
	stdin, err := cloud.StdinPipe()
	if err != nil {
		return "", err
	}
	stdout, err := cloud.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cloud.Start(); err != nil {
		return "", fmt.Errorf("start the test cloud: %w", err)
	}
	first, exited := make(chan string, 1), make(chan struct{})
	stopping, stop := context.WithCancel(context.Background())
	go func() {
		lines, started := bufio.NewScanner(stdout), false
		for lines.Scan() {
			started = true
			select {
			case first <- lines.Text():
			default:
			}
		}
		close(first)
		_ = cloud.Wait() // its log says why it ended
		close(exited)
		if started && stopping.Err() == nil {
			s.fail(errors.New("the test cloud exited unexpectedly; --log FILE has its output"))
		}
	}()
	s.addCleanup(func() {
		stop()
		_ = stdin.Close()
		select {
		case <-exited:
		case <-time.After(stopLimit):
			_ = cloud.Process.Kill()
			<-exited
		}
	})
	select {
	case line := <-first:
		endpoint, ok := strings.CutPrefix(line, "ready ")
		if !ok {
			_ = stdin.Close()
			<-exited
			return "", fmt.Errorf("the test cloud %s did not start: %s", program, strings.TrimSpace(failure.String()))
		}
		return endpoint, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (d *awsDemo) findProgram() (string, error) {
	if d.program != "" {
		return d.program, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	program := filepath.Join(filepath.Dir(self), testCloudProgram)
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("%s is not beside this program: 'make demo CLOUD=aws' in a checkout of Espalier builds it", testCloudProgram)
	}
	return program, nil
}

// configuration returns how the provider reaches the test cloud, and the activation of the example.
func (d *awsDemo) configuration() []*unstructured.Unstructured {
	secret := map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "aws", "namespace": "default"},
		"stringData": map[string]any{"accessKeyId": demoAccessKey, "secretAccessKey": demoAccessKey},
	}
	config := map[string]any{
		"apiVersion": "aws.espalier.dev/v1alpha1", "kind": "ClusterProviderConfig", "metadata": map[string]any{"name": "default"},
		"spec": map[string]any{
			"region":      demoRegion,
			"endpoint":    map[string]any{"url": d.cloud.endpoint},
			"credentials": map[string]any{"source": "Secret", "secretRef": map[string]any{"name": "aws", "namespace": "default"}},
		},
	}
	activation, err := readObjects(examples.EKSWithVPC, d.folder()+"/0-*.yaml")
	if err != nil {
		panic(err) // they are part of the program
	}
	return append([]*unstructured.Unstructured{{Object: secret}, {Object: config}}, activation...)
}

func (*awsDemo) folder() string { return "eks-with-vpc/aws" }

func (*awsDemo) limit() time.Duration { return 2 * time.Minute }

func (*awsDemo) next() (command, text string) {
	return "espalier up --aws", "serves the same kinds for your account of AWS"
}

func (*awsDemo) hasGroup(group string) bool { return strings.HasSuffix(group, ".aws.espalier.dev") }

func (d *awsDemo) countLeft(ctx context.Context) (int, error) { return d.cloud.countLeft(ctx, "demo") }

// nodegroup is the kind of the resource that is scaled.
var nodegroup = schema.GroupKind{Group: "eks.aws.espalier.dev", Kind: "Nodegroup"}

// errCorrected ends the wait for the correction.
var errCorrected = errors.New("corrected")

// changeBottom scales the node group as another client of AWS, and requests a reconcile of it,
// which corrects that: the definition has the number of nodes in forProvider. It measures the time
// from the response to that request until AWS has the specified number of nodes again.
func (d *awsDemo) changeBottom(ctx context.Context, s *demoStory) (string, error) {
	before, err := d.cloud.nodes(ctx, s.target.Name)
	if err != nil {
		return "", err
	}
	if err := d.cloud.scale(ctx, s.target.Name, scaledTo); err != nil {
		return "", err
	}
	if err := d.showNodes(ctx, s); err != nil {
		return "", err
	}
	if err := s.pauseForReader(ctx); err != nil {
		return "", err
	}
	if err := s.requestReconcile(ctx, nodegroup); err != nil {
		return "", err
	}
	begun := time.Now()
	var took time.Duration
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		err := d.cloud.awaitNodes(ctx, s.target.Name, before)
		if took = time.Since(begun); err == nil {
			err = errCorrected
		}
		stop(err)
	}()
	err = s.await(waiting, func(observe.ClusterState) bool { return false })
	if !errors.Is(err, errCorrected) {
		return "", err
	}
	return fmt.Sprintf("%d nodes again in AWS after %s", before, milliseconds(took)), d.showNodes(ctx, s)
}

// showNodes shows how many nodes the node group is to have, as EKS says.
func (d *awsDemo) showNodes(ctx context.Context, s *demoStory) error {
	nodes, err := d.cloud.nodes(ctx, s.target.Name)
	if err != nil {
		return err
	}
	s.send(factMsg(fmt.Sprintf("in EKS: desiredSize=%d", nodes)))
	return nil
}
