package ort

// ForgetWarning lets the next fallback to the CPU warn again.
func ForgetWarning() {
	environment.Lock()
	defer environment.Unlock()
	environment.warned = false
}
