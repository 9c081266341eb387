package packages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"archive/tar"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/espalier-dev/espalier/internal/object"
)

// kubelet runs the Deployments of a namespace: the first container of each, as a process with an address of its own.
type kubelet struct {
	config    *rest.Config
	client    kubernetes.Interface
	namespace string
	dir       string

	mu   sync.Mutex
	pods map[string]*pod // by Deployment
	next byte
}

type pod struct {
	template string
	labels   map[string]string
	address  netip.Addr
	process  *exec.Cmd
	ended    chan struct{}
	ready    bool
}

func runKubelet(t *testing.T, config *rest.Config, namespace string) *kubelet {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelet{config: config, client: client, namespace: namespace, dir: t.TempDir(), pods: map[string]*pod{}, next: 1}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { k.run(ctx) })
	t.Cleanup(func() {
		cancel()
		done.Wait()
		for _, p := range k.pods {
			p.stop()
		}
	})
	names.serve(namespace, k.resolve)
	return k
}

func (k *kubelet) run(ctx context.Context) {
	for ctx.Err() == nil {
		list, err := k.client.AppsV1().Deployments(k.namespace).List(ctx, metav1.ListOptions{})
		if err == nil {
			k.sync(ctx, list.Items)
		}
		options := metav1.ListOptions{TimeoutSeconds: new(int64(1))}
		if list != nil {
			options.ResourceVersion = list.ResourceVersion
		}
		w, err := k.client.AppsV1().Deployments(k.namespace).Watch(ctx, options)
		if err != nil {
			continue
		}
		<-w.ResultChan() // any change, or the end of the second: then the processes are looked at
		w.Stop()
	}
}

func (k *kubelet) sync(ctx context.Context, all []appsv1.Deployment) {
	exist := map[string]bool{}
	for i := range all {
		d := &all[i]
		exist[d.Name] = d.DeletionTimestamp == nil
		if exist[d.Name] {
			k.runDeployment(ctx, d)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, p := range k.pods {
		if !exist[name] {
			p.stop()
			delete(k.pods, name)
		}
	}
}

// runDeployment runs one pod of the newest template, and stops the one before when it is ready.
func (k *kubelet) runDeployment(ctx context.Context, d *appsv1.Deployment) {
	k.mu.Lock()
	before := k.pods[d.Name]
	k.mu.Unlock()
	template := object.Digest(d.Spec.Template)
	message := ""
	if *d.Spec.Replicas == 0 && before != nil {
		before.stop()
		k.set(d.Name, nil)
	} else if *d.Spec.Replicas > 0 && (before == nil || before.template != template || before.hasEnded()) {
		p, err := k.start(ctx, d, template)
		if err != nil {
			message = err.Error()
		} else {
			k.set(d.Name, p)
			if before != nil {
				before.stop()
			}
		}
	}
	k.report(ctx, d, message)
}

func (k *kubelet) set(name string, p *pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p == nil {
		delete(k.pods, name)
		return
	}
	k.pods[name] = p
}

// start returns once the pod is ready.
func (k *kubelet) start(ctx context.Context, d *appsv1.Deployment, template string) (*pod, error) {
	k.mu.Lock()
	k.next++
	address := netip.AddrFrom4([4]byte{127, 0, byte(os.Getpid()%250) + 1, k.next})
	k.mu.Unlock()
	root, err := os.MkdirTemp(k.dir, "pod")
	if err != nil {
		return nil, err
	}
	c := d.Spec.Template.Spec.Containers[0]
	entrypoint, err := pull(c.Image, root)
	if err != nil {
		return nil, err
	}
	env, err := k.environment(ctx, d, c, root, address)
	if err != nil {
		return nil, err
	}
	args := append(entrypoint[1:], c.Args...)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "$(POD_IP)", address.String())
	}
	p := &pod{template: template, labels: d.Spec.Template.Labels, address: address, process: exec.Command(filepath.Join(root, entrypoint[0]), args...), ended: make(chan struct{})}
	p.process.Env = env
	p.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.process.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.process.Wait()
		close(p.ended)
	}()
	probes := time.NewTicker(10 * time.Millisecond)
	defer probes.Stop()
	for range 500 {
		select {
		case <-p.ended:
			return nil, fmt.Errorf("container %s has ended: %s", c.Name, p.process.ProcessState)
		case <-probes.C:
		}
		connection, err := net.DialTimeout("tcp", net.JoinHostPort(address.String(), "9443"), time.Second)
		if err == nil {
			connection.Close()
			p.ready = true
			return p, nil
		}
	}
	p.stop()
	return nil, errors.New("it does not listen on port 9443")
}

// environment also writes the volumes, and names them where they are mounted.
func (k *kubelet) environment(ctx context.Context, d *appsv1.Deployment, c corev1.Container, root string, address netip.Addr) (env []string, err error) {
	env = append(env, "PATH="+os.Getenv("PATH"))
	for _, e := range c.Env {
		value := e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == "status.podIP" {
			value = address.String()
		}
		for _, m := range c.VolumeMounts {
			if value == m.MountPath {
				value = filepath.Join(root, m.MountPath)
			}
		}
		env = append(env, e.Name+"="+value)
	}
	if account := d.Spec.Template.Spec.ServiceAccountName; account != "" {
		path, err := k.connect(ctx, account, root)
		if err != nil {
			return nil, err
		}
		env = append(env, "KUBECONFIG="+path)
	}
	for _, m := range c.VolumeMounts {
		for _, v := range d.Spec.Template.Spec.Volumes {
			if v.Name != m.Name || v.Secret == nil {
				continue
			}
			secret, err := k.client.CoreV1().Secrets(k.namespace).Get(ctx, v.Secret.SecretName, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			dir := filepath.Join(root, m.MountPath)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return nil, err
			}
			for _, item := range v.Secret.Items {
				if err := os.WriteFile(filepath.Join(dir, item.Path), secret.Data[item.Key], 0o600); err != nil {
					return nil, err
				}
			}
		}
	}
	return env, nil
}

// connect writes a kubeconfig with a token of a ServiceAccount.
func (k *kubelet) connect(ctx context.Context, account, root string) (path string, err error) {
	token, err := k.client.CoreV1().ServiceAccounts(k.namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	tls := k.config.TLSClientConfig
	path = filepath.Join(root, "kubeconfig")
	return path, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"c": {Server: k.config.Host, CertificateAuthority: tls.CAFile, CertificateAuthorityData: tls.CAData, InsecureSkipTLSVerify: tls.Insecure}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"c": {Token: token.Status.Token}},
		Contexts:  map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}}, CurrentContext: "c",
	}, path)
}

// pull unpacks an image, and returns its entrypoint.
func pull(image, root string) ([]string, error) {
	ref, err := name.ParseReference(image)
	if err != nil {
		return nil, err
	}
	img, err := remote.Image(ref)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	if len(config.Config.Entrypoint) == 0 {
		return nil, fmt.Errorf("image %s has no entrypoint", image)
	}
	content := mutate.Extract(img)
	defer content.Close()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if err == io.EOF {
			return config.Config.Entrypoint, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		raw, err := io.ReadAll(r)
		if err == nil {
			err = os.WriteFile(filepath.Join(root, filepath.Base(h.Name)), raw, os.FileMode(h.Mode))
		}
		if err != nil {
			return nil, err
		}
	}
}

// report writes the status of a Deployment, if it differs.
func (k *kubelet) report(ctx context.Context, d *appsv1.Deployment, message string) {
	k.mu.Lock()
	p := k.pods[d.Name]
	k.mu.Unlock()
	next := appsv1.DeploymentStatus{ObservedGeneration: d.Generation}
	c := appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Reason: "MinimumReplicasUnavailable", Message: message}
	if p != nil && p.template == object.Digest(d.Spec.Template) && !p.hasEnded() {
		next.Replicas, next.ReadyReplicas, next.AvailableReplicas, next.UpdatedReplicas = 1, 1, 1, 1
		c.Status, c.Reason = corev1.ConditionTrue, "MinimumReplicasAvailable"
	}
	if *d.Spec.Replicas == 0 {
		c.Status, c.Reason = corev1.ConditionTrue, "MinimumReplicasAvailable"
	}
	next.Conditions = []appsv1.DeploymentCondition{c}
	if object.Digest(d.Status) == object.Digest(next) {
		return
	}
	d.Status = next
	_, _ = k.client.AppsV1().Deployments(k.namespace).UpdateStatus(ctx, d, metav1.UpdateOptions{}) // a conflict brings another round
}

func (p *pod) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// stop lets a process end by itself, as a kubelet does.
func (p *pod) stop() {
	_ = p.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		_ = p.process.Process.Kill()
		<-p.ended
	}
}

// resolve returns the addresses of the ready pods that a Service selects.
func (k *kubelet) resolve(service string) (out []netip.Addr) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, err := k.client.CoreV1().Services(k.namespace).Get(ctx, service, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.pods {
		if labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.labels)) && p.ready && !p.hasEnded() {
			out = append(out, p.address)
		}
	}
	return out
}

// running is how many processes run.
func (k *kubelet) running() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.pods)
}
