package worker

// maxCommands bounds the commands of one window.
const maxCommands = 1024
