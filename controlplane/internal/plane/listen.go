package plane

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// listen opens the port to serve on and stores its number in file, so that copies of the kubeconfig
// work after a restart. A given port that is in use is an error; if the stored one is in use, any
// free port is taken.
func listen(file string, port int) (net.Listener, error) {
	if port != 0 {
		return listenOn(file, port)
	}
	if last, ok := storedPort(file); ok {
		if listener, err := listenOn(file, last); err == nil {
			return listener, nil
		}
	}
	return listenOn(file, 0)
}

func listenOn(file string, port int) (net.Listener, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	line := fmt.Sprintln(portOf(listener.Addr()))
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		listener.Close()
		return nil, err
	}
	return listener, nil
}

// storedPort reads the port in file. It is false if the file is missing or invalid.
func storedPort(file string) (port int, ok bool) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	port, err = strconv.Atoi(strings.TrimSpace(string(data)))
	return port, err == nil && port > 0
}

func portOf(addr net.Addr) int {
	return addr.(*net.TCPAddr).Port
}
