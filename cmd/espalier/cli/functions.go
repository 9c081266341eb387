package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/functions/packages"
)

// functionFlags say how functions are served, and how they are called.
type functionFlags struct {
	given        []string
	certificates string
	secret       string
	preferBuilt  string
}

func (f *functionFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.given, "function", nil, "how a function is served, whatever the cluster says: NAME=./program is run here, NAME=HOST:PORT is called on this machine; repeatable")
	flags.StringVar(&f.certificates, "function-certificates", "", "the directory of the ca.crt, tls.crt and tls.key with which functions of packages are called")
	flags.StringVar(&f.preferBuilt, "functions-prefer-builtin", string(packages.PreferBuiltInAuto), "whether functions that are part of this program are called instead of packages of their names: "+
		"true, false, or auto: where there are no certificates to call a package with, and it is the same function")
	flags.Lookup("functions-prefer-builtin").NoOptDefVal = string(packages.PreferBuiltInAlways)
	flags.StringVar(&f.secret, "function-certificates-secret", "", "the Secret with these, as NAMESPACE/NAME, instead of the directory")
}

// options are what the flags say; output takes what programs print.
func (f *functionFlags) options(output io.Writer) (packages.Options, error) {
	o := packages.Options{Given: map[string]packages.Given{}, PreferBuiltIn: packages.PreferBuiltIn(f.preferBuilt)}
	switch o.PreferBuiltIn {
	case "", packages.PreferBuiltInAuto, packages.PreferBuiltInAlways, packages.PreferBuiltInNever:
	default:
		return o, &usageError{fmt.Errorf("--functions-prefer-builtin must be true, false or auto, not %s", f.preferBuilt)}
	}
	for _, text := range f.given {
		name, given, err := parseFunction(text)
		if err != nil {
			return o, &usageError{fmt.Errorf("--function %s: %w", text, err)}
		}
		if _, twice := o.Given[name]; twice {
			return o, &usageError{fmt.Errorf("--function %s: %s is given twice", text, name)}
		}
		o.Given[name] = given
	}
	namespace, name, named := strings.Cut(f.secret, "/")
	switch {
	case f.certificates != "" && f.secret != "":
		return o, &usageError{errors.New("--function-certificates and --function-certificates-secret: one of both")}
	case f.certificates != "":
		if _, err := pipeline.Directory(f.certificates)(); err != nil {
			return o, &usageError{fmt.Errorf("--function-certificates: %w", err)}
		}
		o.Certificates = pipeline.Directory(f.certificates)
	case f.secret != "" && (!named || namespace == "" || name == ""):
		return o, &usageError{fmt.Errorf("--function-certificates-secret must be NAMESPACE/NAME, not %s", f.secret)}
	case f.secret != "":
		o.CertificatesSecret = packages.SecretName{Namespace: namespace, Name: name}
	}
	lines := &prefixed{to: output}
	o.Output = lines.as
	return o, nil
}

// parseFunction reads NAME=HOST:PORT or NAME=./program.
func parseFunction(text string) (string, packages.Given, error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || value == "" {
		return "", packages.Given{}, errors.New("must be NAME=HOST:PORT or NAME=./program")
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", packages.Given{}, fmt.Errorf("%q can't be a Function's name: %s", name, problems[0])
	}
	if isAddress(value) {
		if !pipeline.Loopback(value) {
			return "", packages.Given{}, fmt.Errorf("%s is not on this machine, and calls of it could be read on the way. "+
				"Run the program here (--function %s=./program), or forward a port of this machine to it and name that; "+
				"or let the Function's annotations say that it is for development", value, name)
		}
		return name, packages.Given{Address: value}, nil
	}
	if !strings.ContainsRune(value, filepath.Separator) {
		return "", packages.Given{}, fmt.Errorf("%s is no HOST:PORT, and a program is named by its path: ./%s", value, value)
	}
	path, err := filepath.Abs(value)
	if err != nil {
		return "", packages.Given{}, err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", packages.Given{}, err
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return "", packages.Given{}, fmt.Errorf("%s is not a program", path)
	}
	return name, packages.Given{Program: path}, nil
}

func isAddress(value string) bool {
	if strings.HasPrefix(value, "unix:") {
		return true
	}
	_, port, err := net.SplitHostPort(value)
	return err == nil && port != "" && !strings.ContainsRune(value, filepath.Separator)
}

// prefixed lets several programs print to one place, by whole lines that say whose they
// are.
type prefixed struct {
	mu sync.Mutex
	to io.Writer
}

func (p *prefixed) as(name string) io.Writer { return &printer{prefixed: p, name: name} }

// printer is what one program prints to.
type printer struct {
	*prefixed
	name string
	rest []byte // a line that isn't whole yet
}

// longestLine is for how long a line is waited for before it is printed in parts.
const longestLine = 16 << 10

func (p *printer) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rest = append(p.rest, data...)
	for {
		end := bytes.IndexByte(p.rest, '\n')
		if end < 0 && len(p.rest) < longestLine {
			return len(data), nil
		}
		line := p.rest
		if end >= 0 {
			line = p.rest[:end]
		}
		fmt.Fprintf(p.to, "%s | %s\n", p.name, line)
		p.rest = p.rest[min(len(line)+1, len(p.rest)):]
	}
}
