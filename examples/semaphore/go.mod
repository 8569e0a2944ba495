module penstock/examples/semaphore

go 1.18
