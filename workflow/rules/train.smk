rule train:
    input:
        layout.FINGERPRINT,
    output:
        directory(CELL.best),
        directory(CELL.last),
        CELL.curve,
        CELL.train,
    log:
        CELL.log("train"),
    benchmark:
        CELL.usage("train")
    conda:
        "../envs/mujax-pipe.yaml"
    threads: PARAMS.run.threads
    resources:
        # Stochastic MuZero on CartPole-v1 takes 1.3 GB, replay a few MB of it; more when that failed.
        mem_mb=lambda cell, attempt: 2500 * attempt,
        runtime=lambda cell: train_minutes(config_of(cell)),
        gpu=lambda cell: int(config_of(cell).learner_device.startswith("gpu")),
    params:
        settings=lambda cell: PARAMS.train_settings(cell_of(cell)),
    # A cell that was stopped goes on, and its log with it.
    shell:
        "mujax-pipe cell train {wildcards.algo} {wildcards.env} {wildcards.seed} >> {log} 2>&1"
