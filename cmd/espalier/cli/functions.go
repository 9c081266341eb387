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

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/program/functions/packages"
	"github.com/espalier-dev/espalier/internal/program/server"
)

// addPrograms adds the functions on this machine, whose programs write to output.
func addPrograms(o *packages.Options, c server.FunctionsConfiguration, output io.Writer) error {
	if o.Certificates != nil {
		if _, err := o.Certificates(); err != nil {
			return &usageError{fmt.Errorf("functions.certPath (--function-certs): %w", err)}
		}
	}
	o.Local = map[string]packages.LocalFunction{}
	for _, text := range c.Local {
		name, given, err := parseFunction(text)
		if err != nil {
			return &usageError{fmt.Errorf("--function %s: %w", text, err)}
		}
		if _, twice := o.Local[name]; twice {
			return &usageError{fmt.Errorf("--function %s: %s is given twice", text, name)}
		}
		if given.TLS && o.Certificates == nil && o.CertificatesSecret == (packages.SecretName{}) {
			return &usageError{fmt.Errorf("--function %s: calls of it need a client certificate: --function-certs DIRECTORY", text)}
		}
		o.Local[name] = given
	}
	for _, variable := range c.Environment {
		name, _, hasValue := strings.Cut(variable, "=")
		if name == "" {
			return &usageError{fmt.Errorf("--function-env must be NAME=VALUE or NAME, not %s", variable)}
		}
		if !hasValue {
			value, set := os.LookupEnv(name)
			if !set {
				continue
			}
			variable = name + "=" + value
		}
		o.Environment = append(o.Environment, variable)
	}
	o.Output = (&prefixWriter{to: output}).forProgram
	return nil
}

// withTLS begins the address of a function that is called by mutual TLS.
const withTLS = "grpcs://"

// parseFunction reads NAME=HOST:PORT, NAME=grpcs://HOST:PORT or NAME=./program.
func parseFunction(text string) (string, packages.LocalFunction, error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || value == "" {
		return "", packages.LocalFunction{}, errors.New("must be NAME=HOST:PORT, NAME=grpcs://HOST:PORT or NAME=./program")
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", packages.LocalFunction{}, fmt.Errorf("%q can't be a Function's name: %s", name, problems[0])
	}
	if address, ok := strings.CutPrefix(value, withTLS); ok {
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" || strings.Contains(address, "/") {
			return "", packages.LocalFunction{}, fmt.Errorf("%s must be %sHOST:PORT", value, withTLS)
		}
		return name, packages.LocalFunction{Address: address, TLS: true}, nil
	}
	if isAddress(value) {
		if !pipeline.IsLoopback(value) {
			return "", packages.LocalFunction{}, fmt.Errorf("%s is not on this machine, and calls of it are not encrypted. "+
				"Call it by mutual TLS (--function %s=grpcs://%s), or run the program here (--function %s=./program)", value, name, value, name)
		}
		return name, packages.LocalFunction{Address: value}, nil
	}
	if !strings.ContainsRune(value, filepath.Separator) {
		return "", packages.LocalFunction{}, fmt.Errorf("%s is not HOST:PORT; for a program, give its path: ./%s", value, value)
	}
	path, err := filepath.Abs(value)
	if err != nil {
		return "", packages.LocalFunction{}, err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", packages.LocalFunction{}, err
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return "", packages.LocalFunction{}, fmt.Errorf("%s is not a program", path)
	}
	return name, packages.LocalFunction{Program: path}, nil
}

func isAddress(value string) bool {
	if strings.HasPrefix(value, "unix:") {
		return true
	}
	_, port, err := net.SplitHostPort(value)
	return err == nil && port != "" && !strings.ContainsRune(value, filepath.Separator)
}

// prefixWriter merges the output of several programs: whole lines, prefixed with the program's
// name.
type prefixWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (p *prefixWriter) forProgram(name string) io.Writer {
	return &programWriter{prefixWriter: p, name: name}
}

// programWriter is the output of one program.
type programWriter struct {
	*prefixWriter
	name string
	rest []byte // an incomplete line
}

// maxLine is the length in bytes beyond which a line is printed in parts.
const maxLine = 16 << 10

func (p *programWriter) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rest = append(p.rest, data...)
	for {
		end := bytes.IndexByte(p.rest, '\n')
		if end < 0 && len(p.rest) < maxLine {
			return len(data), nil
		}
		line := p.rest
		if end >= 0 {
			line = p.rest[:end]
		}
		fmt.Fprintf(p.to, "%s | %s\n", p.name, diag.Printable(string(line)))
		p.rest = p.rest[min(len(line)+1, len(p.rest)):]
	}
}
